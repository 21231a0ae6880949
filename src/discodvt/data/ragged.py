"""Many rows of different lengths in one flat array: 273,000 stories of 512 subwords are 560 MB, and no objects."""

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
        """Pack rows as they come; a block at a time, so that small arrays never pile up."""
        blocks: list[Ints] = []
        lengths: list[int] = []
        pending: list[Ints] = []
        for row in rows:
            pending.append(row)
            lengths.append(len(row))
            if len(pending) == 1024:
                blocks.append(np.concatenate(pending))
                pending = []
        values = np.concatenate([*blocks, *pending, np.empty(0, dtype=np.int32)]).astype(np.int32, copy=False)
        return cls(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]
