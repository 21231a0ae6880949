"""The kinds of arrays that scores are made of, and the sum that every draw asks for."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Weights: TypeAlias = NDArray[np.float32]  # [draws, texts]; what is summed with them are counts, exact to 2 ** 24


def sum_over_texts(weights: Weights, amounts: NDArray[np.number]) -> Floats:
    """For each draw, the weighted sum of amounts given for texts, [texts] or [texts, k].

    Not by BLAS: its threads would wait for one another on a busy machine, and the sums are small.
    """
    return np.asarray(np.einsum("dt,t...->d...", weights, amounts, dtype=np.float64))
