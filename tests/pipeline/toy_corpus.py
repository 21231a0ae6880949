"""A small annotated corpus in a grammar simple enough to be learned in seconds."""

import random
from pathlib import Path

from discodvt.corpus import ANNOTATED_SCHEMA, write_rows

NAMES = ("Ann", "Ben", "Cat", "Dog", "Eve", "Fox")
THINGS = ("ball", "cake", "hat", "kite", "book", "drum")
JOINTS = (
    ("so", "so_arg1_arg2"),
    ("because", "because_arg1_arg2"),
    ("and", "and_arg1_arg2"),
    ("then", "then_arg1_arg2"),
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
    from discodvt.corpus import CORPUS_SCHEMA

    directory.mkdir(parents=True, exist_ok=True)
    schema = ANNOTATED_SCHEMA if annotated else CORPUS_SCHEMA
    for split, size, seed in (("train", train, 0), ("valid", valid, 1)):
        rows = (story(number, seed) for number in range(size))
        write_rows(directory / f"{split}.parquet", ({name: row[name] for name in schema.names} for row in rows), schema)
    return directory
