"""Many rows of different lengths in one flat array: 273,000 stories of 512 subwords are 560 MB, and no objects."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ints
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Ints]) -> "Ragged":
        packing = Packing()
        for row in rows:
            packing.add(row)
        return packing.ragged()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]


class Packing:
    """Rows packed as they come, a block at a time, so that small arrays never pile up."""

    def __init__(self) -> None:
        self.blocks: list[Ints] = []
        self.pending: list[Ints] = []
        self.lengths = array("q")

    def add(self, row: Ints) -> None:
        self.pending.append(row)
        self.lengths.append(len(row))
        if len(self.pending) == 1024:
            self.blocks.append(np.concatenate(self.pending))
            self.pending = []

    def ragged(self) -> Ragged:
        values = np.concatenate([*self.blocks, *self.pending, np.empty(0, dtype=np.int32)])
        return Ragged(values.astype(np.int32, copy=False), np.cumsum([0, *self.lengths], dtype=np.int64))
