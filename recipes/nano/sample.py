"""A sample of an annotated corpus, for grids that have to be done in hours on a CPU.

usage: python recipes/nano/sample.py ANNOTATED OUT [--train 4000 --valid 200 --test 200 --tokenizer DIR --most 256]

Rows are drawn at random (seed 0) among stories of at most `--most` subwords, and written in their own order with the
schema they have, so the annotation need not be made again. OUT/manifest.json says what was drawn from which files.
"""

import json
import random
from argparse import ArgumentParser
from pathlib import Path

import pyarrow.parquet as pq
from transformers import AutoTokenizer

from discodvt.artefacts import file_hash


def sample(source: Path, target: Path, counts: dict[str, int], *, tokenizer: str, most: int) -> dict[str, object]:
    """Write the sample; returns how many stories and subwords each split has."""
    target.mkdir(parents=True, exist_ok=True)
    encode = AutoTokenizer.from_pretrained(tokenizer).backend_tokenizer.encode_batch
    facts: dict[str, object] = {}
    for split, count in counts.items():
        table = pq.read_table(source / f"{split}.parquet")
        stories = table.column("story").to_pylist()
        lengths = [len(found.ids) for found in encode(stories, add_special_tokens=False)]
        fitting = [row for row, length in enumerate(lengths) if length <= most]
        drawn = sorted(random.Random(f"0 {split}").sample(fitting, min(count, len(fitting))))
        pq.write_table(table.take(drawn), target / f"{split}.parquet")
        facts[split] = {
            "stories": len(drawn),
            "of": len(table),
            "subwords": sum(lengths[row] for row in drawn),
            "from": file_hash(source / f"{split}.parquet"),
        }
    return facts


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("annotated", type=Path)
    parser.add_argument("out", type=Path)
    for split, count in (("train", 4000), ("valid", 200), ("test", 200)):
        parser.add_argument(f"--{split}", type=int, default=count)
    parser.add_argument("--tokenizer", default="runs/nano/backbone")
    parser.add_argument("--most", type=int, default=256, help="subwords of a story")
    given = parser.parse_args()
    asked = {split: getattr(given, split) for split in ("train", "valid", "test")}
    found = sample(given.annotated, given.out, asked, tokenizer=given.tokenizer, most=given.most)
    (given.out / "manifest.json").write_text(json.dumps({"stage": "sample", "facts": found}, indent=2) + "\n")
    print(json.dumps(found))
