"""Batches made in the background, in a thread, while the model is at work on those before."""

from collections.abc import Iterator
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import NamedTuple

from discodvt.data.batches import Batch
from discodvt.training.stages import Counts, Feed, Steps

AHEAD = 4  # micro-batches that wait
_PATIENCE = 0.2  # seconds after which a thread that is held up looks whether it is still wanted


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
        self._waiting: Queue[MicroBatch | BaseException] = Queue(ahead)
        self._closed = Event()
        self._thread = Thread(target=self._work, args=(items,), daemon=True)
        self._thread.start()

    def _work(self, items: Iterator[MicroBatch]) -> None:
        try:
            for item in items:
                if not self._put(item):
                    return
        except BaseException as error:
            self._put(error)
        else:
            self._put(StopIteration())

    def _put(self, item: MicroBatch | BaseException) -> bool:
        """Whether the item was taken in: nobody waits for it after `close`."""
        while not self._closed.is_set():
            try:
                self._waiting.put(item, timeout=_PATIENCE)
            except Full:
                continue
            return True
        return False

    def __iter__(self) -> "Prefetch":
        return self

    def __next__(self) -> MicroBatch:
        item = self._waiting.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._waiting.get(timeout=_PATIENCE / 10)
            except Empty:
                continue
        self._thread.join()
