"""A small annotated corpus in a grammar simple enough to be learned in seconds."""

import json
import random
import runpy
from pathlib import Path

from discodvt.artefacts import open_stage
from discodvt.corpus import ANNOTATED_SCHEMA, CORPUS_SCHEMA, write_rows

TINY = Path(__file__).parents[2] / "recipes" / "tiny" / "stories.py"

NAMES = ("Ann", "Ben", "Cat", "Dog", "Eve", "Fox")
THINGS = ("ball", "cake", "hat", "kite", "book", "drum")
JOINTS = (
    ("so", "so_arg1_arg2"),
    ("because", "because_arg1_arg2"),
    ("and", "and_arg1_arg2"),
    ("then", "then_arg1_arg2"),
)

SENTENCES = (
    "The fox ran home because he was late.",
    "Although it rained, they played outside.",
    "Then the owl laughed.",
    "Mia found a ball and she gave it to Tom.",
    "After they ate, the sun went down.",
    "Tom was sad, so his mother sang a song.",
    "It was a long day.",
)


def story(number: int, seed: int = 0) -> dict[str, object]:
    """A prompt and a few sentences, two EDUs each, joined by a marker; the text tiles into its EDUs."""
    chance = random.Random(seed * 100_003 + number)
    edus, relations, text = [], [], ""
    for sentence in range(chance.randint(2, 6)):
        name, thing = chance.choice(NAMES), chance.choice(THINGS)
        marker, label = chance.choice(JOINTS)
        parts = (f"{name} saw a {thing} ", f"{marker} {name} took the {thing}. ")
        relations += (["unknown"] if sentence else []) + [label]
        for part in parts:
            edus.append({"start": len(text), "end": len(text) + len(part)})
            text += part
    edus[-1]["end"] = len(text.rstrip())
    return {"id": str(number), "prompt": f"A day with {chance.choice(NAMES)}", "story": text.rstrip(), "edus": edus,
            "relations": relations}  # fmt: skip


def write_corpus(directory: Path, *, train: int = 96, valid: int = 24, annotated: bool = True) -> Path:
    """`train.parquet` and `valid.parquet` in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    schema = ANNOTATED_SCHEMA if annotated else CORPUS_SCHEMA
    for split, size, seed in (("train", train, 0), ("valid", valid, 1)):
        rows = (story(number, seed) for number in range(size))
        write_rows(directory / f"{split}.parquet", ({name: row[name] for name in schema.names} for row in rows), schema)
    return directory


def make_corpus(directory: Path, *, train: int, valid: int = 0, test: int = 0) -> Path:
    """What `discodvt prepare` leaves, of English sentences to be annotated."""
    rng = random.Random(1)
    with open_stage(directory, "prepare", config={}) as stage:
        for split, count in (("train", train), ("valid", valid), ("test", test)):
            if count:
                rows = (
                    {"id": f"{split}-{n}", "prompt": "p", "story": " ".join(rng.choices(SENTENCES, k=4))}
                    for n in range(count)
                )
                with stage.writing(f"{split}.parquet") as path:
                    write_rows(path, rows, CORPUS_SCHEMA)
        stage.finish()
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def tiny_stories(count: int) -> list[dict[str, str]]:
    """What `recipes/tiny/stories.py` writes."""
    made, chance = runpy.run_path(str(TINY))["story"], random.Random(0)
    return [made(chance) for _ in range(count)]


def write_tiny_stories(path: Path, count: int) -> Path:
    """As JSONL."""
    path.write_text("".join(json.dumps(row) + "\n" for row in tiny_stories(count)))
    return path


def write_tiny_corpus(directory: Path) -> list[dict[str, str]]:
    """As a corpus that is not annotated; the stories of its training split."""
    rows = [row | {"id": str(number)} for number, row in enumerate(tiny_stories(160))]
    directory.mkdir()
    for split, part in (("train", rows[:120]), ("valid", rows[120:])):
        write_rows(directory / f"{split}.parquet", part, CORPUS_SCHEMA)
    return rows[:120]
