"""EDU spans, given in characters, over the subwords of a story (section 3.3, equation 5)."""

import numpy as np
from numpy.typing import NDArray

from discodvt.data.ragged import Ints


def edu_boundaries(token_ends: NDArray[np.int64], edu_ends: NDArray[np.int64]) -> Ints:
    """Where each EDU begins among decoder input positions `<s> y1 .. yM`: boundaries [S + 1], the last one M + 1.

    `token_ends` [M] and `edu_ends` [S] are character offsets, end excluded. A subword belongs to the EDU of its last
    character: whitespace stands at the front of a subword but at the end of an EDU. `<s>` belongs to the first EDU.
    EDUs past the kept subwords are empty.
    """
    owner = np.searchsorted(edu_ends, np.maximum(token_ends - 1, 0), side="right")  # [M] EDU of each subword
    starts = np.searchsorted(owner, np.arange(len(edu_ends) + 1), side="left") + 1  # position of y_m is m
    starts[0] = 0
    starts[-1] = len(token_ends) + 1
    return starts.astype(np.int32)
