"""How often a wish comes true: prompts x markers, the relation at or beside its place, with and without the wish.

usage: python recipes/nano/wishes.py OUT.json [--model DIR] [--prompts N] [--candidates K] [--markers and so ...]
                                     [--judge CACHE] [--seed S]

Prompts are the first N of titles.tsv of its test split; the markers by default the five commonest of the model's code
dictionary. A wish writes the story once without it (that is the story to compare with), then K - 1 candidates with it,
and keeps the best (`discodvt.writing.candidates`). OUT.json has the shares with their 95% bootstrap intervals over
prompts, and every pair of stories. With `--judge` also the perplexity of the kept stories over that of the unwished
ones, under the judge of smollm.py.
"""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge import Value, ratio, read_titles

from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.candidates import Wish, write_best
from discodvt.writing.dictionary import CodeDictionary

HERE = Path(__file__).parent
FIRST_PLACE = 3  # marker m is wished for at place 3 + m: every plan of the model is longer
TRUE = ("here", "beside")


def commonest(dictionary: CodeDictionary, count: int = 5) -> list[str]:
    """The markers that the phrases of the codes have most often."""
    counts: Counter[str] = Counter()
    for entry in dictionary.entries.values():
        counts.update({each["marker"]: each["count"] for each in entry["markers"]})
    return [marker for marker, _ in counts.most_common(count)]


def wished(
    writer: StoryWriter, prompts: Sequence[str], marker: str, place: int, candidates: int, seed: int
) -> list[dict[str, Any]]:
    """For each prompt what was found with and without the wish, and both stories."""
    requests = [Request(prompt, index=number, seed=seed) for number, prompt in enumerate(prompts)]
    found = []
    for story in write_best(writer, requests, SamplingParams(), candidates=candidates, wish=Wish(place, marker)):
        base = story.notes["candidates"][0]
        told = {"marker": marker, "place": place, "prompt": story.prompt}
        with_it = {"found": story.notes["wish"]["found"], "story": story.text}
        found.append({**told, "wished": with_it, "unwished": {"found": base["found"], "story": base["story"]}})
    return found


def shares(rows: Sequence[dict[str, Any]]) -> dict[str, Value]:
    """The share that came true with and without the wish, and the ratio of the two; prompts are resampled."""
    prompts = sorted({row["prompt"] for row in rows})
    sums = []
    for prompt in prompts:
        mine = [row for row in rows if row["prompt"] == prompt]
        sums.append([*(sum(row[kind]["found"] in TRUE for row in mine) for kind in ("wished", "unwished")), len(mine)])
    return {
        "wished": ratio(sums, lambda each: each[0] / each[2]),
        "unwished": ratio(sums, lambda each: each[1] / each[2]),
        "times as often": ratio(sums, lambda each: each[0] / np.maximum(each[1], 1)),
    }


def perplexities(rows: Sequence[dict[str, Any]], cache: Path) -> Value:
    """Perplexity of the kept stories over that of the unwished ones."""
    from smollm import Judge

    judge = Judge(cache)
    sides = [
        judge.score([(f"{row['prompt']}\n", row[kind]["story"]) for row in rows]) for kind in ("wished", "unwished")
    ]
    sums = [(a.nll.sum(), len(a.nll), b.nll.sum(), len(b.nll)) for a, b in zip(*sides, strict=True)]
    return ratio(sums, lambda each: np.exp(each[0] / each[1] - each[2] / each[3]))


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--markers", nargs="+")
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    writer = StoryWriter.from_pretrained(given.model)
    titles = [each.prompt for each in read_titles(HERE / "titles.tsv").values() if each.split == "test"]
    markers = given.markers or commonest(CodeDictionary.of(writer.directory))
    rows: list[dict[str, Any]] = []
    for number, marker in enumerate(markers):
        rows += wished(writer, titles[: given.prompts], marker, FIRST_PLACE + number, given.candidates, given.seed)
        print(
            marker, {name: round(each["value"], 3) for name, each in shares(rows[-given.prompts :]).items()}, flush=True
        )
    result: dict[str, Any] = {"all": shares(rows)}
    result |= {marker: shares([row for row in rows if row["marker"] == marker]) for marker in markers}
    if given.judge is not None:
        result["perplexity"] = perplexities(rows, given.judge)
    given.out.write_text(json.dumps({"scores": result, "wishes": rows}, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["all"] | {name: result[name] for name in result.keys() & {"perplexity"}}, indent=1))


if __name__ == "__main__":
    main()
