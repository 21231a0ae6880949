"""Prose free to train on: the stories of books, tales and tiny under the data directory. Writes nothing."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

SOURCES = {
    "books": "books/public_domain_fiction.jsonl.gz",
    "tales": "tales/tales.jsonl.gz",
    "tiny": "tiny/train.jsonl.gz",
}


def stories(data: Path, source: str, words: int, seed: int = 0) -> Iterator[str]:
    """Stories of one source in random order until about `words` words were given."""
    with gzip.open(data / SOURCES[source], "rt", encoding="utf8") as lines:
        found = [json.loads(line)["story"] for line in lines]
    random.Random(seed).shuffle(found)
    for story in found:
        if words <= 0:
            return
        words -= len(story.split())
        yield story
