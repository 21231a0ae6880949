"""Which split a story goes to, and whether it was seen before: both decided as the stories pass, in one reading.

A split is drawn by a hash of the seed and the prompt (the book, for a segment of one; the id, where both are blank), so
the stories of one prompt stay together, a story's split does not depend on those around it, and the shares are met
on average rather than to the unit. What was seen is remembered as 8-byte digests.
"""

import hashlib
from array import array
from collections.abc import Sequence

from discodvt.corpus.records import SPLITS
from discodvt.errors import BadRequest

DEFAULT_SHARES = "90/5/5"
READING_ORDER = ("test", "valid", "train")  # what is in test is in no other split, what is in valid never in train


def parse_shares(text: str) -> tuple[float, ...]:
    """`90/5/5` as fractions for train, valid and test."""
    try:
        shares = [float(part) for part in text.split("/")]
    except ValueError:
        shares = []
    if len(shares) != len(SPLITS) or not all(0 <= share < float("inf") for share in shares) or not sum(shares):
        raise BadRequest(
            f"`split` {text}: expected three shares for train/valid/test, such as {DEFAULT_SHARES}", parameter="split"
        )
    return tuple(share / sum(shares) for share in shares)


def draw_split(key: str, *, seed: int, shares: Sequence[float]) -> str:
    """The split of everything that has this key."""
    point = _digest(f"{seed}\0{normalise(key)}") / 2**64
    passed = 0.0
    for split, share in zip(SPLITS, shares, strict=True):
        passed += share
        if point < passed:
            return split
    return max(zip(shares, SPLITS, strict=True))[1]  # rounding left a hair above the last share


class Seen:
    """Texts met so far, 8 bytes of each: a hash table in one array, a fifth of the memory of a set.

    Two different texts of ten million are taken for the same with a chance of one in 300,000.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * 1024))  # 0 is free; a digest sits at its low bits or in the next free slot
        self._count = 0

    def __contains__(self, text: str) -> bool:
        return bool(self._slots[self._slot(_digest(text))])

    def add(self, text: str) -> bool:
        """Remember a text; returns whether it was new."""
        digest = _digest(text)
        slot = self._slot(digest)
        if self._slots[slot]:
            return False
        self._slots[slot] = digest
        self._count += 1
        if self._count * 3 > len(self._slots) * 2:
            full, self._slots = self._slots, array("Q", bytes(16 * len(self._slots)))
            for digest in filter(None, full):
                self._slots[self._slot(digest)] = digest
        return True

    def _slot(self, digest: int) -> int:
        """Where a digest is, or would go."""
        slots, last = self._slots, len(self._slots) - 1
        slot = digest & last
        while slots[slot] and slots[slot] != digest:
            slot = (slot + 1) & last
        return slot


def _digest(text: str) -> int:
    """Eight bytes of a hash as a number from 1."""
    packed = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(packed, "big") or 1


def normalise(text: str) -> str:
    """The form in which two texts count as the same: whitespace runs as one space, case folded."""
    return " ".join(text.split()).casefold()
