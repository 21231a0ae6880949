"""A small study: two or three systems with names that cannot occur by chance, people's stories for the checks."""

import json
import random
from pathlib import Path

from discodvt.judging.make_stage import StudyDirectory, make_study, open_study

WORDS = "the old fox ran home because it rained and then slept near a quiet river while owls sang".split()
OURS, RIVAL, THIRD = "quokka-nine", "zebrafish-three", "axolotl-five"


def write_stories(path: Path, seed: int, *, count: int = 12, sentences: int = 6) -> None:
    chance = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            told = " ".join(" ".join(chance.choices(WORDS, k=7)).capitalize() + "." for _ in range(sentences))
            file.write(json.dumps({"id": f"s{number}", "prompt": f"A prompt, {number}", "story": told}) + "\n")


def write_study(folder: Path, *, systems: int = 2, extra: str = "", sections: str = "", count: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    names = [OURS, RIVAL, THIRD][:systems]
    for seed, name in enumerate([*names, "people"]):
        write_stories(folder / f"{name}.jsonl", seed, count=count)
    listed = "\n".join(f'{name} = "{name}.jsonl"' for name in names)
    path = folder / "study.toml"
    path.write_text(
        f'title = "A study"\nitems = {count}\n{extra}\n[systems]\n{listed}\n[checks]\nevery = 4\n'
        f'stories = "people.jsonl"\n{sections}\n[completion]\ncode = "DONE-42"\n',
        encoding="utf-8",
    )
    return path


def toy_study(
    folder: Path, *, systems: int = 2, extra: str = "", sections: str = "", count: int = 12
) -> StudyDirectory:
    make_study(write_study(folder, systems=systems, extra=extra, sections=sections, count=count), folder / "out")
    return open_study(folder / "out")
