"""How PyTorch computes a step of decoding: small work on one thread, and never by oneDNN.

Two threads that wait for each other cost more than they bring, far more on a busy machine; oneDNN takes longer to find
its GELU than PyTorch's own takes to compute a row. A switch is put back only by the caller that turned it, so that
writers in several threads leave both as they found them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

WORTH_SHARING = 20_000_000  # multiplications
_ONEDNN: Any = torch.backends.mkldnn


@contextmanager
def kernels_for(multiplications: int) -> Iterator[None]:
    """All threads, or one where the work is small; turning the switches takes about a microsecond."""
    threads, onednn = torch.get_num_threads(), _ONEDNN.enabled
    alone = multiplications < WORTH_SHARING and threads > 1
    if alone:
        torch.set_num_threads(1)
    if onednn:
        _ONEDNN.enabled = False
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(threads)
        if onednn:
            _ONEDNN.enabled = True
