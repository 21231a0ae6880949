"""Sentences of a CoNLL-U treebank and windows of them. Reads CoNLL-U, writes nothing."""

import random
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Sentence:
    """Words with PTB tags, 1-based heads (0 is the root) and relation labels."""

    words: list[str]
    tags: list[str]
    heads: list[int]
    rels: list[str]


def read_conllu(path: Path) -> list[Sentence]:
    """The syntactic words of a CoNLL-U file (ranges and empty nodes are skipped)."""
    sentences = []
    for block in path.read_text(encoding="utf8").strip().split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line[:1].isdigit()]
        rows = [row for row in rows if row[0].isdigit()]
        sentences.append(
            Sentence([r[1] for r in rows], [r[4] for r in rows], [int(r[6]) for r in rows], [r[7] for r in rows])
        )
    return sentences


def windows(sentences: list[Sentence], size: int, rng: random.Random | None = None) -> list[list[Sentence]]:
    """Runs of neighbouring sentences of about `size` words; shuffled, with random cuts, when `rng` is given."""
    result: list[list[Sentence]] = []
    current: list[Sentence] = []
    limit = rng.randint(1, size) if rng else size
    for sentence in sentences:
        if current and sum(len(s.words) for s in current) + len(sentence.words) > limit:
            result.append(current)
            current, limit = [], size
        current.append(sentence)
    result.append(current)
    if rng:
        rng.shuffle(result)
    return result
