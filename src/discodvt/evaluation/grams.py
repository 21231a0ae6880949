"""Counting n-grams with arrays: each n-gram becomes one integer, and one sort counts them all.

An n-gram's integer is that of its first n-1 tokens, shifted, with the last token in the low bits. When 64 bits would
not hold it, the prefix is first replaced by its rank among those present: no hashing, no collisions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discodvt.evaluation.tokens import Ints, Tokens

BITS = 62
NOTHING = np.iinfo(np.int64).max  # the key of a position where no n-gram begins
KEYS_PER_BLOCK = 2**18
ROWS_PER_BLOCK = 2048
WEIGHTS_PER_STRIP = 2**19  # draws times texts: what the processor's cache holds

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Weights: TypeAlias = NDArray[np.float32]  # [draws, texts]; what is summed with them are counts, exact to 2 ** 24


@dataclass(frozen=True, slots=True)
class GramCounts:
    """How often each n-gram stands in each text of each side, one entry for each that has it.

    Entries are ordered by n-gram, text, side; n-gram g owns the entries `bounds[g]` to `bounds[g + 1]`.
    """

    bounds: Ints  # [grams + 1]
    text: NDArray[np.int32]  # [entries]
    side: NDArray[np.int8]  # [entries]
    count: NDArray[np.int32]  # [entries]
    texts: int

    def per_gram(self, amounts: NDArray[np.signedinteger]) -> Ints:
        """Sum the amounts, one for each entry, by n-gram."""
        return np.add.reduceat(amounts, self.bounds[:-1], dtype=np.int64) if len(amounts) else amounts.astype(np.int64)

    def per_text(self, amounts: NDArray[np.signedinteger], *, where: Flags | None = None) -> Floats:
        """Sum the amounts, one for each entry, by text; `where` picks n-grams."""
        chosen = slice(None) if where is None else self._entries(where)
        return np.bincount(self.text[chosen], amounts[chosen], self.texts).astype(np.float64)

    def matrix(self, amounts: NDArray[np.signedinteger], *, where: Flags) -> list[csr_array]:
        """The n-grams `where` picks as a sparse matrix [grams, texts] of the amounts, in blocks of rows.

        A block whose sums under weights of 0 and 1 fit 16 bits has them: half the memory to walk, twice the speed.
        """
        chosen = self._entries(where)
        values, columns = amounts[chosen], self.text[chosen]
        rows = np.concatenate([[0], np.cumsum(np.diff(self.bounds)[where])])
        blocks = []
        for first in range(0, len(rows) - 1, ROWS_PER_BLOCK):
            here = rows[first : first + ROWS_PER_BLOCK + 1]
            part, starts = slice(here[0], here[-1]), (here - here[0]).astype(np.int32)
            largest = np.add.reduceat(np.abs(values[part]), starts[:-1], dtype=np.int64).max()
            fitting = values[part].astype(np.int16 if largest < 2**15 else np.float32)
            blocks.append(csr_array((fitting, columns[part], starts), shape=(len(here) - 1, self.texts)))
        return blocks

    def _entries(self, where: Flags) -> Flags:
        return np.repeat(where, np.diff(self.bounds))


def count_grams(
    sides: Sequence[Tokens], orders: Sequence[int], *, allowed: Flags | None = None
) -> dict[int, GramCounts]:
    """Count n-grams of one or more sides interned together; `allowed` drops n-grams with a token not in it."""
    ids = np.concatenate([side.ids for side in sides])
    texts, side_bits = max(map(len, sides)), _bits(len(sides))
    owner = np.concatenate([(side.text << side_bits) | number for number, side in enumerate(sides)])
    token_bits, owner_bits = _bits(len(sides[0].vocabulary)), _bits(texts) + side_bits
    unknown = None if allowed is None else np.cumsum(np.append(0, ~allowed[ids]), dtype=np.int32)
    grams, bits = ids.astype(np.int64), token_bits
    buffer = np.empty_like(grams)  # for all orders: fresh memory costs more than counting
    counted = {}
    for order in range(1, max(orders) + 1):
        if order > 1:
            if bits + token_bits + owner_bits > BITS:
                present, grams = np.unique(grams, return_inverse=True)
                bits = _bits(len(present))
            grams = grams[:-1]
            grams <<= token_bits
            grams |= ids[order - 1 :]
            bits += token_bits
        if order in orders:
            outside = owner[: len(grams)] != owner[order - 1 :]
            if unknown is not None:
                outside |= unknown[order:] != unknown[: len(grams)]
            keys = np.left_shift(grams, owner_bits, out=buffer[: len(grams)])
            keys |= owner[: len(grams)]
            keys[outside] = NOTHING
            keys.sort()
            found = len(keys) - int(np.count_nonzero(outside))
            counted[order] = _count(keys[:found], owner_bits=owner_bits, side_bits=side_bits, texts=texts)
    return counted


def sum_over_texts(weights: Weights, amounts: NDArray[np.number]) -> Floats:
    """For each draw, the weighted sum of amounts given for texts, [texts] or [texts, k].

    Not by BLAS: its threads would wait for one another on a busy machine, and the sums are small.
    """
    return np.asarray(np.einsum("dt,t...->d...", weights, amounts, dtype=np.float64))


def sum_over_grams(
    matrix: Sequence[csr_array], weights: Weights, total: Callable[[NDArray[np.number], slice], NDArray[np.floating]]
) -> Floats:
    """For each draw (a row of weights, 0 or 1 for a text): `total` of the counts, summed over all n-grams.

    `total` is given the counts [grams, draws] of some n-grams under some draws, and which draws.
    """
    sums = np.zeros(len(weights))
    width = max(WEIGHTS_PER_STRIP // weights.shape[1], 16)
    for first in range(0, len(weights), width):
        strip = slice(first, min(first + width, len(weights)))
        columns = {kind: np.ascontiguousarray(weights[strip].T, dtype=kind) for kind in (np.int16, np.float32)}
        for block in matrix:
            sums[strip] += total(block @ columns[block.dtype.type], strip)
    return sums


def _count(keys: Ints, *, owner_bits: int, side_bits: int, texts: int) -> GramCounts:
    """Counts from sorted keys that hold an n-gram and, in the low bits, the text and side that has it there.

    Block by block, so that nothing large is made but the result; a block begins with an n-gram.
    """
    firsts = keys[::KEYS_PER_BLOCK] >> owner_bits << owner_bits
    edges = np.unique(np.append(np.searchsorted(keys, firsts), len(keys)))
    parts = []
    for start, end in pairwise(edges.tolist()):
        runs = _bounds(keys[start:end])
        entries = keys[start:end][runs[:-1]]
        owner = (entries & ((1 << owner_bits) - 1)).astype(np.int32)
        entries >>= owner_bits
        sizes, counts = (np.diff(bounds).astype(np.int32) for bounds in (_bounds(entries), runs))
        parts.append((sizes, owner >> side_bits, (owner & ((1 << side_bits) - 1)).astype(np.int8), counts))
    nothing = (np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int8), np.zeros(0, np.int32))
    sizes, text, side, count = (np.concatenate(each) for each in zip(*(parts or [nothing]), strict=True))
    return GramCounts(np.concatenate([[0], np.cumsum(sizes)]), text, side, count, texts)


def _bits(size: int) -> int:
    """How many bits tell `size` things apart."""
    return max(size - 1, 0).bit_length()


def _bounds(values: Ints) -> Ints:
    """Where each run of equal values begins, and where the last one ends."""
    begins = np.ones(len(values) + 1, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=begins[1:-1])
    return np.flatnonzero(begins) if len(values) else np.zeros(1, dtype=np.int64)
