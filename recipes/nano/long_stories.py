"""Long stories of a writer, written and measured: length and end, repetition, heroes that stay, fluency by quarter.

usage: python recipes/nano/long_stories.py OUT [--model DIR] [--books FILE.jsonl.gz] [--prompts 20] [--skip 0]
                                           [--words 2000] [--seed 0] [--no-judge]

OUT is a directory. Writes the stories (`stories.jsonl`, by `discodvt generate --words`, to the first test prompts of
titles.tsv without strange names), then measures them, then has each judged (`judge.sqlite`, see smollm.py); after every
judged story `scores.json` is written anew with the figures so far. Stopped at any moment, the same command goes on:
stories, and what was judged, are kept. 20 stories take about 15 minutes of one core, most of them the judge's.

A hero is one of a story's first quarter: the one marked in titles.tsv where the story names it there, else the word
that stands most often after "the" or within a sentence with a capital; he stays where the last quarter names him.
rep-16 is that of `discodvt evaluate`, for `--books` of pieces of the same length from the books' second hundred words
on. The judge's perplexity of each quarter is with all before it in view.
"""

import gzip
import json
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge import Title, Value, ratio, read_stories, read_titles, says, share

from discodvt.evaluation import evaluate
from discodvt.resumable import write_json

ENDS = re.compile(r"[.!?][\"'”’)]*$")
_NAME = re.compile(r"(?<![.!?\"“] )(?<!^)\b(?!I\b)([A-Z][a-z]+)\b|\b[Tt]he ([a-z]{3,})\b")
SKIPPED = 200  # words of a book: titles, prefaces
BOOKS = 100
STRANGE = "name"  # the kind of prompts about heroes with made-up names
PROMISED = {  # what is asked of long stories: at least, or at most
    "end with a sentence": (1.0, None),
    "heroes that stay": (0.7, None),
    "rep-16 / books": (None, 1.3),
    "last quarter / first": (None, 1.15),
}


def hero_of(story: str, title: Title | None) -> str:
    """The hero of a story's first quarter."""
    first = quarters(story)[0]
    if title is not None and says(first, title.hero):
        return title.hero
    found = Counter(name or noun for name, noun in _NAME.findall(first))
    return found.most_common(1)[0][0] if found else ""


def quarters(story: str) -> list[str]:
    words = story.split()
    return [" ".join(part) for part in np.array_split(np.array(words, dtype=object), 4)]


def book_pieces(path: Path, words: int) -> list[str]:
    """Pieces of so many words, one of each of every 25th book that is long enough."""
    pieces: list[str] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % 25 == 0 and len(pieces) < BOOKS:
                text = json.loads(line)["story"].split()
                if len(text) >= SKIPPED + words:
                    pieces.append(" ".join(text[SKIPPED : SKIPPED + words]))
    return pieces


def write_stories(out: Path, titles: Mapping[str, Title], given: Namespace) -> list[dict[str, Any]]:
    """The stories of `discodvt generate`, which goes on where it was stopped."""
    prompts = [each.prompt for each in titles.values() if each.split == "test" and each.kind != STRANGE]
    chosen = prompts[given.skip : given.skip + given.prompts]
    (out / "prompts.txt").write_text("".join(f"{each}\n" for each in chosen), encoding="utf-8")
    model = ["--model", given.model] if given.model else []
    words = ["generate", *model, "--prompts", out / "prompts.txt", "--words", given.words, "--seed", given.seed]
    command = [sys.executable, "-m", "discodvt", *map(str, words), "--output", str(out / "stories.jsonl")]
    subprocess.run(command, check=True)
    return read_stories(out / "stories.jsonl")


def text_scores(
    stories: Sequence[Mapping[str, Any]], titles: Mapping[str, Title], books: Path | None
) -> dict[str, Any]:
    """What needs no judge."""
    heroes = [hero_of(row["story"], titles.get(row["prompt"])) for row in stories]
    stays = [bool(hero) and says(quarters(row["story"])[3], hero) for row, hero in zip(stories, heroes, strict=True)]
    lengths = [len(row["story"].split()) for row in stories]
    scores: dict[str, Any] = {
        "words": ratio([(length, 1) for length in lengths], lambda s: s[0] / s[1]),
        "ended by themselves": share([(row["finish"] == "end", 1) for row in stories]),
        "end with a sentence": share([(bool(ENDS.search(row["story"])), 1) for row in stories]),
        "heroes that stay": share([(stay, 1) for stay in stays]),
    }
    texts = {"rep-16": [row["story"] for row in stories]}
    if books is not None:
        texts["rep-16 of books"] = book_pieces(books, round(float(np.mean(lengths))))
    for name, several in texts.items():
        score = evaluate(several, several)["rep-16"]
        scores[name] = {key: getattr(score, key) for key in ("value", "low", "high", "n")}
    if books is not None:
        theirs = scores["rep-16 of books"]["value"]
        scores["rep-16 / books"] = {
            key: value if key == "n" else value / theirs for key, value in scores["rep-16"].items()
        }
    together = zip(stories, heroes, stays, strict=True)
    named = [{"prompt": row["prompt"], "hero": hero, "stays": stay} for row, hero, stay in together]
    return {"scores": scores, "heroes": named}


def judged(stories: Sequence[Mapping[str, Any]], cache: Path) -> Iterator[dict[str, Value]]:
    """Perplexity by quarter, and of the last over the first, of the first story, the first two, and so on."""
    from smollm import Judge

    judge, parts = Judge(cache), []
    for row in stories:  # one at a time, so that a stopped run has lost no more than one
        (losses,) = judge.score([(f"{row['prompt']}\n", row["story"])])
        parts.append([(part.sum(), len(part)) for part in np.array_split(losses.nll, 4)])
        found = {
            f"perplexity of quarter {which + 1}": ratio([each[which] for each in parts], lambda s: np.exp(s[0] / s[1]))
            for which in range(4)
        }
        ends = [(*each[3], *each[0]) for each in parts]
        yield found | {"last quarter / first": ratio(ends, lambda s: np.exp(s[0] / s[1] - s[2] / s[3]))}


def kept(scores: Mapping[str, Value]) -> dict[str, bool]:
    """Which promises these figures keep."""
    return {
        name: (least is None or scores[name]["value"] >= least) and (most is None or scores[name]["value"] <= most)
        for name, (least, most) in PROMISED.items()
        if name in scores
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", help="a writer; default: the storyteller that ships")
    parser.add_argument("--books", type=Path)
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0, help="prompts before these, as of another run")
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-judge", action="store_true")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    titles = read_titles(Path(__file__).parent / "titles.tsv")
    stories = write_stories(given.out, titles, given)
    found = text_scores(stories, titles, given.books)
    for fluency in [{}] if given.no_judge else judged(stories, given.out / "judge.sqlite"):
        found["scores"] |= fluency
        write_json(given.out / "scores.json", found | {"promises kept": kept(found["scores"])})
        count = found["scores"].get("last quarter / first", {"n": 0})["n"]
        print(f"{count} of {len(stories)} judged", file=sys.stderr, flush=True)
    for name, value in found["scores"].items():
        print(f"{name:24} {value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f}), {value['n']}")


if __name__ == "__main__":
    main()
