"""How well long stories hold together: length and end, repetition, heroes that stay, fluency by quarter.

usage: python recipes/nano/long_stories.py OUT.json STORIES.jsonl [--books FILE.jsonl.gz] [--judge CACHE]
                                           [--judged N] [--titles recipes/nano/titles.tsv]

Reads stories of `discodvt generate --words`. A hero is one of a story's first quarter: the one marked in `--titles`
where the story names it there, else the word that stands most often after "the" or within a sentence with a capital;
he stays where the last quarter names him. rep-16 is that of `discodvt evaluate`, for `--books` of pieces of the same
length from the books' second hundred words on. `--judge` adds the perplexity of each quarter of the first N stories,
all before it in view.
"""

import gzip
import json
import re
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from judge import Title, Value, ratio, read_stories, read_titles, says, share

from discodvt.evaluation import evaluate

ENDS = re.compile(r"[.!?][\"'”’)]*$")
_NAME = re.compile(r"(?<![.!?\"“] )(?<!^)\b(?!I\b)([A-Z][a-z]+)\b|\b[Tt]he ([a-z]{3,})\b")
SKIPPED = 200  # words of a book: titles, prefaces
BOOKS = 100


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


def fluency(stories: Sequence[Mapping[str, Any]], cache: Path) -> dict[str, Value]:
    """Perplexity by quarter, and of the last over the first."""
    from smollm import Judge

    losses = Judge(cache).score([(f"{row['prompt']}\n", row["story"]) for row in stories])
    parts = [[(part.sum(), len(part)) for part in np.array_split(each.nll, 4)] for each in losses]
    found = {
        f"perplexity of quarter {which + 1}": ratio([each[which] for each in parts], lambda s: np.exp(s[0] / s[1]))
        for which in range(4)
    }
    ends = [(*each[3], *each[0]) for each in parts]
    return found | {"last quarter / first": ratio(ends, lambda s: np.exp(s[0] / s[1] - s[2] / s[3]))}


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("stories", type=Path)
    parser.add_argument("--books", type=Path)
    parser.add_argument("--judge", type=Path)
    parser.add_argument("--judged", type=int)
    parser.add_argument("--titles", type=Path, default=Path(__file__).parent / "titles.tsv")
    given = parser.parse_args()
    stories, titles = read_stories(given.stories), read_titles(given.titles)
    heroes = [hero_of(row["story"], titles.get(row["prompt"])) for row in stories]
    stays = [says(quarters(row["story"])[3], hero) for row, hero in zip(stories, heroes, strict=True)]
    lengths = [len(row["story"].split()) for row in stories]
    found: dict[str, Any] = {
        "words": ratio([(length, 1) for length in lengths], lambda s: s[0] / s[1]),
        "ended by themselves": share([(row["finish"] == "end", 1) for row in stories]),
        "end with a sentence": share([(bool(ENDS.search(row["story"])), 1) for row in stories]),
        "heroes that stay": share([(stay, 1) for stay in stays]),
    }
    texts = {"rep-16": [row["story"] for row in stories]}
    if given.books is not None:
        texts["rep-16 of books"] = book_pieces(given.books, round(float(np.mean(lengths))))
    for name, several in texts.items():
        score = evaluate(several, several)["rep-16"]
        found[name] = {key: getattr(score, key) for key in ("value", "low", "high", "n")}
    if given.judge is not None:
        found |= fluency(stories[: given.judged], given.judge)
    for name, value in found.items():
        print(f"{name:24} {value['value']:.3f} ({value['low']:.3f} to {value['high']:.3f}), {value['n']}")
    together = zip(stories, heroes, stays, strict=True)
    named = [{"prompt": row["prompt"], "hero": hero, "stays": stay} for row, hero, stay in together]
    given.out.write_text(json.dumps({"scores": found, "heroes": named}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
