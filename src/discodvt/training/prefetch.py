"""Batches made in the background, in a thread, while the model is at work on those before."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from discodvt.data.batches import Batch
from discodvt.training.stages import Counts, Feed, Steps

AHEAD = 4  # micro-batches that wait


class MicroBatch(NamedTuple):
    """One process's next piece of work."""

    batch: Batch
    counts: Counts  # of the whole step
    last: bool  # of the step, on this process


def micro_batches(
    order: Steps, feed: Feed, *, steps: range, process: int = 0, processes: int = 1
) -> Iterator[MicroBatch]:
    """The micro-batches of a process over `steps`: each reads only its own stories."""
    for step in steps:
        rows = order.step(step)
        counts, mine = feed.counts(rows.ravel()), rows[process::processes]
        for place, part in enumerate(mine, start=1):
            yield MicroBatch(feed.batch(part, step=step), counts, place == len(mine))


class Prefetch:
    """What an iterator yields, a few items ahead. An error is raised where its item would have come."""

    def __init__(self, items: Iterator[MicroBatch], *, ahead: int = AHEAD) -> None:
        self._items = items
        self._thread = ThreadPoolExecutor(1)
        self._waiting = deque(self._thread.submit(next, items) for _ in range(ahead + 1))

    def __iter__(self) -> "Prefetch":
        return self

    def __next__(self) -> MicroBatch:
        item = self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(next, self._items))
        return item

    def close(self) -> None:
        """End the thread; what it is at work on is the last."""
        self._thread.shutdown(cancel_futures=True)
