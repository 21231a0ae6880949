"""Counting n-grams with arrays: each n-gram becomes one integer, and one sort counts them all.

An n-gram's integer, its key, has the tokens one after another and in the low bits the text that has it there. When 64
bits would not hold it, the first tokens are replaced by their rank among those present: no hashing, no collisions.

Large arrays are slow to make and to walk. But for the sorted keys everything is done in pieces that the processor's
cache holds, and the counts stay in parts, so that time grows as the texts do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discodvt.evaluation.metric import Flags, Floats, Ints, Weights
from discodvt.evaluation.metrics.word_tokens import WordTokens

BITS = 63  # of an integer that is not negative
PLACES_PER_PIECE = 2**15
KEYS_PER_PART = 2**16  # about: an n-gram is never divided
ROWS_PER_BLOCK = 2048
WEIGHTS_PER_STRIP = 2**19  # resamples times texts: what the processor's cache holds


@dataclass(frozen=True, slots=True)
class NgramCounts:
    """How often each n-gram of a part stands in each text of each side, one entry for each that has it.

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


Parts: TypeAlias = list[NgramCounts]  # at least one; no n-gram is in two


def count_ngrams(
    sides: Sequence[WordTokens], orders: Sequence[int], *, allowed: Flags | None = None
) -> dict[int, Parts]:
    """Count n-grams of one or more sides interned together; `allowed` drops n-grams with a token not in it."""
    ids = np.concatenate([side.ids for side in sides])
    texts, side_bits = max(map(len, sides)), _bits(len(sides))
    owner = np.concatenate([(side.text << side_bits) | number for number, side in enumerate(sides)])
    owner_bits, token_bits = _bits(texts) + side_bits, _bits(len(sides[0].vocabulary))
    unknown = None if allowed is None else np.cumsum(np.append(0, ~allowed[ids]), dtype=np.int32)
    line, buffer = _Line(ids, token_bits, ids, token_bits), np.empty(len(ids), dtype=np.int64)
    counted = {}
    for order in sorted(orders):
        while line.bits(order) + owner_bits > BITS:
            line = line.ranked(order, buffer)
        filled = 0
        for piece in _pieces(len(ids) - order + 1):
            last = slice(piece.start + order - 1, piece.stop + order - 1)
            inside = owner[piece] == owner[last]
            if unknown is not None:
                inside &= unknown[piece] == unknown[last.start + 1 : last.stop + 1]
            keys = line.grams(piece, order)
            keys <<= owner_bits
            keys |= owner[piece]
            found = keys[inside]
            buffer[filled : filled + len(found)] = found
            filled += len(found)
        buffer[:filled].sort()
        counted[order] = [
            _count(part, owner_bits=owner_bits, side_bits=side_bits, texts=texts)
            for part in _parts(buffer[:filled], owner_bits)
        ]
    return counted


def sum_over_ngrams(
    matrix: Sequence[csr_array], weights: Weights, total: Callable[[NDArray[np.number], slice], NDArray[np.floating]]
) -> Floats:
    """For each resample (a row of weights, 0 or 1 for a text): `total` of the counts, summed over all n-grams.

    `total` is given the counts [grams, resamples] of some n-grams under some resamples, and which ones.
    """
    sums = np.zeros(len(weights))
    width = max(WEIGHTS_PER_STRIP // weights.shape[1], 16)
    for first in range(0, len(weights), width):
        strip = slice(first, min(first + width, len(weights)))
        columns = {kind: np.ascontiguousarray(weights[strip].T, dtype=kind) for kind in (np.int16, np.float32)}
        for block in matrix:
            sums[strip] += total(block @ columns[block.dtype.type], strip)
    return sums


@dataclass(frozen=True, slots=True)
class _Line:
    """All tokens in a row; what stands for the first ones of the n-gram at each position is its head."""

    ids: NDArray[np.int32]
    token_bits: int
    heads: NDArray[np.int32]
    head_bits: int
    head_order: int = 1

    def bits(self, order: int) -> int:
        """How many bits an n-gram needs."""
        return self.head_bits + (order - self.head_order) * self.token_bits

    def grams(self, piece: slice, order: int) -> Ints:
        """The n-grams that begin in a piece of the positions, as integers that are in order as their tokens are."""
        grams = self.heads[piece].astype(np.int64)
        for further in range(self.head_order, order):
            grams <<= self.token_bits
            grams |= self.ids[piece.start + further : piece.stop + further]
        return grams

    def ranked(self, order: int, buffer: Ints) -> "_Line":
        """With heads of more tokens, at most `order`: each the rank of these tokens among those present."""
        place_bits = _bits(len(self.ids))
        more = max((BITS - place_bits - self.head_bits) // self.token_bits, 1)
        head_order = min(self.head_order + more, order)
        found, heads = buffer[: len(self.ids) - head_order + 1], np.empty_like(self.heads)
        for piece in _pieces(len(found)):
            found[piece] = self.grams(piece, head_order)
        if self.bits(head_order) + place_bits <= BITS:
            last = _rank_by_place(found, place_bits, heads)
        else:
            present, heads[: len(found)] = np.unique(found, return_inverse=True)
            last = len(present) - 1
        return replace(self, heads=heads, head_bits=_bits(last + 1), head_order=head_order)


def _rank_by_place(numbers: Ints, place_bits: int, ranks: NDArray[np.int32]) -> int:
    """Write the rank of each number among those present; the highest rank. The numbers do not survive.

    They are sorted with their places in the low bits: several times as fast as sorting places by number.
    """
    for piece in _pieces(len(numbers)):
        numbers[piece] <<= place_bits
        numbers[piece] |= np.arange(piece.start, piece.stop)
    numbers.sort()
    before, rank = numbers[:1] >> place_bits, 0
    for piece in _pieces(len(numbers)):
        here = numbers[piece] >> place_bits
        steps = np.cumsum(np.diff(here, prepend=before) != 0)
        ranks[numbers[piece] & ((1 << place_bits) - 1)] = rank + steps
        before, rank = here[-1:], rank + int(steps[-1])
    return rank


def _pieces(size: int) -> Iterator[slice]:
    """Places one after another, as many at a time as the processor's cache likes."""
    return (slice(start, min(start + PLACES_PER_PIECE, size)) for start in range(0, size, PLACES_PER_PIECE))


def _parts(keys: Ints, owner_bits: int) -> list[Ints]:
    """Sorted keys in parts that each begin with an n-gram; one without keys where there are none."""
    firsts = keys[::KEYS_PER_PART] >> owner_bits << owner_bits
    edges = np.unique(np.append(np.searchsorted(keys, firsts), len(keys)))
    return [keys[start:end] for start, end in pairwise(edges.tolist())] or [keys]


def _count(keys: Ints, *, owner_bits: int, side_bits: int, texts: int) -> NgramCounts:
    """Counts from sorted keys that hold an n-gram and, in the low bits, the text and side that has it there."""
    runs = _bounds(keys)
    entries = keys[runs[:-1]]
    owner = (entries & ((1 << owner_bits) - 1)).astype(np.int32)
    return NgramCounts(
        bounds=_bounds(entries >> owner_bits),
        text=owner >> side_bits,
        side=(owner & ((1 << side_bits) - 1)).astype(np.int8),
        count=np.diff(runs).astype(np.int32),
        texts=texts,
    )


def _bits(size: int) -> int:
    """How many bits number `size` things."""
    return max(size - 1, 0).bit_length()


def _bounds(values: Ints) -> Ints:
    """Where each run of equal values begins, and where the last one ends."""
    begins = np.ones(len(values) + 1, dtype=bool)
    np.not_equal(values[1:], values[:-1], out=begins[1:-1])
    return np.flatnonzero(begins) if len(values) else np.zeros(1, dtype=np.int64)
