"""More stories of the kind in `tiny/`, each for a title people would type: the small story model continues openings.

usage: python recipes/nano/more_stories.py SAMPLER OUT.jsonl --seed S [--minutes 60] [--titles FILE]

SAMPLER is the folder of the sampler `tiny/` was written with (`sample.py`, `weights.npz`): its batch is never empty, so
it writes six stories a second and core. Appends one object a line: `story` (opening and what follows), `opening`,
`title`, `about`, `hero`, `words`. A story is kept if it ended by itself, is not short, and names its hero again after
the opening. Prompts of `--titles` are never drawn.
"""

import json
import random
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import torch
from seeds import Seed, draw_seed


def seeded_stories(sampler: Path, rng: random.Random, avoid: frozenset[str]) -> Iterator[tuple[Seed, str]]:
    """Seeds and the stories that the sampler makes of their openings, endlessly."""
    sys.path.insert(0, str(sampler))
    import sample

    seeds: dict[str, Seed] = {}

    def opening(_: random.Random) -> str:
        while True:
            seed = draw_seed(rng, avoid=avoid)
            if seed.opening.isascii():  # the sampler spells nothing else
                seeds[seed.opening] = seed
                return seed.opening

    sample.opening = opening
    for story in sample.stories(rng):
        found = next((story[:end] for end in range(len(story), 0, -1) if story[:end] in seeds), None)
        if found is not None:
            yield seeds[found], story


def is_good(seed: Seed, rest: str) -> bool:
    """Long enough, and the hero is named again."""
    return len(rest) > 250 and seed.hero.lower() in rest.lower()


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sampler", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--titles", type=Path, default=Path(__file__).with_name("titles.tsv"))
    given = parser.parse_args()
    avoid = frozenset(line.rstrip("\n").split("\t")[-1].lower() for line in given.titles.open(encoding="utf-8"))
    torch.manual_seed(given.seed)
    until, kept, drawn = time.monotonic() + 60 * given.minutes, 0, 0
    with given.out.open("a", encoding="utf-8") as out:
        for seed, story in seeded_stories(given.sampler, random.Random(given.seed), avoid):
            drawn += 1
            if is_good(seed, story.removeprefix(seed.opening)):
                kept += 1
                out.write(json.dumps({"story": story, **asdict(seed)}, ensure_ascii=False) + "\n")
            if drawn % 100 == 0:
                out.flush()
                print(f"{kept} stories kept of {drawn}", flush=True)
            if time.monotonic() > until:
                break


if __name__ == "__main__":
    main()
