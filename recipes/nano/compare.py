"""What the storyteller's plans are worth in stories, on held-out prompts.

usage: python recipes/nano/compare.py WRITER SEQ2SEQ CORPUS OUT [--split test] [--stories 500] [--temperature 1 ...]

Writes stories to the first prompts of a split under four systems: plans drawn from the prior, the plan of the true
story (posterior), the plan of another story of about the same length, and plain seq2seq, all with the same settings.
Then: how many end by themselves, and the paper's metrics with tests, right against wrong plan story by story, prior
against seq2seq. All of it goes to OUT/judgement.json. The storyteller's own settings were chosen on `valid`.
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from discodvt import StoryWriter
from discodvt.corpus import Example, read_examples, split_files
from discodvt.evaluation import compare, evaluate
from discodvt.evaluation.metrics.word_tokens import tokenize
from discodvt.writing import Request, SamplingParams, Story

Plans = Sequence[tuple[int, ...] | None]


def write(writer: StoryWriter, rows: Sequence[Example], plans: Plans, params: SamplingParams, out: Path) -> list[Story]:
    requests = [Request(row.prompt, index=n, plan=plans[n], id=row.id) for n, row in enumerate(rows)]
    written = sorted(writer.write_many(requests, params, batch_size=32), key=lambda story: story.index)
    with out.open("w", encoding="utf-8") as file:
        file.writelines(story.as_line() for story in written)
    return written


def each_alone(stories: Sequence[list[str]], references: Sequence[list[str]], name: str) -> np.ndarray:
    """A score of every story against its own reference."""
    pairs = zip(stories, references, strict=True)
    return np.array([evaluate([story], [reference])[name].value for story, reference in pairs])


def main(
    writer_dir: Path, seq2seq_dir: Path, corpus: Path, out: Path, split: str, count: int, params: SamplingParams
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    rows = list(islice(read_examples(split_files(corpus)[split]), count))
    truth = [row.story for row in rows]
    writer = StoryWriter.from_pretrained(writer_dir)
    right = [writer.plan_of(story) for story in truth]
    by_length = sorted(range(count), key=lambda number: len(right[number]))
    other = dict(zip(by_length, by_length[1:] + by_length[:1], strict=True))
    nothing: Plans = [None] * count
    systems = {
        "prior": write(writer, rows, nothing, params, out / "prior.jsonl"),
        "right": write(writer, rows, right, params, out / "right.jsonl"),
        "wrong": write(writer, rows, [right[other[number]] for number in range(count)], params, out / "wrong.jsonl"),
        "seq2seq": write(StoryWriter.from_pretrained(seq2seq_dir), rows, nothing, params, out / "seq2seq.jsonl"),
    }
    texts = {name: [story.text for story in stories] for name, stories in systems.items()}
    compared = compare(texts["prior"], texts["seq2seq"], truth, prompts=[row.prompt for row in rows])
    found: dict[str, Any] = {
        "stories": count,
        "ended": {name: sum(s.finish == "end" for s in stories) / count for name, stories in systems.items()},
        "words": {name: float(np.mean([len(text.split()) for text in each])) for name, each in texts.items()}
        | {"truth": float(np.mean([len(text.split()) for text in truth]))},
        "prior against seq2seq": {name: each.as_dict() for name, each in compared.items()},
    }
    tokens = {name: [tokenize(text) for text in each] for name, each in (texts | {"truth": truth}).items()}
    least = min(sum(map(len, tokens[name])) for name in ("prior", "truth"))
    for name in ("prior", "truth"):  # equal numbers of stories and tokens
        share = least / sum(map(len, tokens[name]))
        cut = [each[: max(1, round(share * len(each)))] for each in tokens[name]]
        scores = evaluate(cut, tokens["truth"])
        found[f"variety {name}"] = {key: scores[key].value for key in ("D-4", "rep-8", "rep-16")}
    found["right against wrong plan"] = {}
    for name in ("B-1", "B-2", "MSJ-2", "MSJ-3"):
        a, b = (each_alone(tokens[system], tokens["truth"], name) for system in ("right", "wrong"))
        found["right against wrong plan"][name] = {
            "right": a.mean(), "wrong": b.mean(), "p": ttest_rel(a, b).pvalue
        }  # fmt: skip
    (out / "judgement.json").write_text(json.dumps(found, indent=2, default=float) + "\n", encoding="utf-8")
    print(json.dumps({key: value for key, value in found.items() if key != "prior against seq2seq"}, indent=2))
    for name, each in found["prior against seq2seq"].items():
        print(f"{name:8} prior {each['a']['value']:.4f}  seq2seq {each['b']['value']:.4f}  {each['stars']}")


if __name__ == "__main__":
    parser = ArgumentParser()
    for name in ("writer", "seq2seq", "corpus", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--stories", type=int, default=500)
    for name in ("temperature", "top_p", "repetition_penalty"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=1.0 if name != "top_p" else 0.9)
    parser.add_argument("--prompt-bias", type=float, default=0.0)
    given = parser.parse_args()
    params = SamplingParams(
        temperature=given.temperature, top_p=given.top_p, repetition_penalty=given.repetition_penalty,
        prompt_bias=given.prompt_bias,
        min_tokens=40, max_tokens=320, min_codes=8,
    )  # fmt: skip
    main(given.writer, given.seq2seq, given.corpus, given.out, given.split, given.stories, params)
