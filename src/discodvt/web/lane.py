"""Turns for work that can wait: answering requests that only read, sending to those who follow a story.

While stories are written, each turn is paid for by CPU time of their writing, however much of a core that gets, or by
`PATIENCE` times as much of the clock's, for writing that waits itself (for a GPU); else there is one in each round of
the event loop. Work waits under a key and keys take turns: many who want the same leave room for one who wants
something else.
"""

import asyncio
from collections import deque
from collections.abc import Callable

LOOK_SECONDS = 0.01
PATIENCE = 4
Work = Callable[[], float]  # returns the CPU seconds of writing it costs; 0 where there was nothing to do any more


class Lane:
    """Lives in the event loop. `written` tells the CPU seconds spent on stories so far; None while none is written."""

    def __init__(self, written: Callable[[], float | None]) -> None:
        self._written = written
        self._waiting: dict[str, deque[Work]] = {}  # the key whose turn is next comes first
        self._paid_at = self._late_at = 0.0
        self._timer: asyncio.Handle | None = None

    def add(self, key: str, work: Work, *, first: bool = False) -> None:
        """Let it wait for a turn; `first`: before what waits under this key already."""
        queue = self._waiting.setdefault(key, deque())
        queue.appendleft(work) if first else queue.append(work)
        if isinstance(self._timer, asyncio.TimerHandle) and self._written() is None:  # the stories have ended meanwhile
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._look)

    async def turn(self, key: str, cost: float) -> None:
        """Wait for a turn."""
        come = asyncio.get_running_loop().create_future()

        def call() -> float:
            if come.done():  # whoever waited was cancelled
                return 0.0
            come.set_result(None)
            return cost

        self.add(key, call)
        await come

    def hurry(self, key: str) -> None:
        """All that wait under this key have their turn now."""
        for work in self._waiting.pop(key, ()):
            work()

    def _look(self) -> None:
        self._timer = None
        if not self._waiting:  # they were hurried
            return
        written, loop = self._written(), asyncio.get_running_loop()
        if written is None:
            self._take()
        elif written >= self._paid_at or loop.time() >= self._late_at:
            cost = self._take()
            self._paid_at, self._late_at = written + cost, loop.time() + PATIENCE * cost
        if self._waiting and self._timer is None:
            self._timer = loop.call_soon(self._look) if written is None else loop.call_later(LOOK_SECONDS, self._look)

    def _take(self) -> float:
        key = next(iter(self._waiting))
        queue = self._waiting.pop(key)
        work = queue.popleft()
        if queue:
            self._waiting[key] = queue
        return work()
