"""One thread for small work: two that wait for each other cost more than they bring, far more on a busy machine."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

WORTH_SHARING = 20_000_000  # multiplications


@contextmanager
def threads_for(multiplications: int) -> Iterator[None]:
    """All threads, or one where the work is small; setting them takes less than a microsecond."""
    before = torch.get_num_threads()
    if multiplications < WORTH_SHARING and before > 1:
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)
    else:
        yield
