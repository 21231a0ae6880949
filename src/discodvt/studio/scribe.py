"""The thread that owns the model: it steps the batch that all requests share, and runs other work between two steps.

Engines set switches of PyTorch while they compute, so nothing else may. What has grown in a step is handed to the event
loop once a step; of each story at most `DELTAS` times a second, of all together `SENDS` times.
"""

import asyncio
import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from discodvt.stored_weights import writer_hash
from discodvt.studio.jobs import Event, Job
from discodvt.web.access import HttpError
from discodvt.writing import Request, SamplingParams, StoryStream, StoryWriter
from discodvt.writing.story_batch import StoryDraft

ROWS = 64
MOST_WAITING = 256
DELTAS = 30.0
SENDS = 250.0
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Growing:
    """A story of a job: its stream, and what of it was told. Where one of `stops` comes, the story ends before it."""

    def __init__(self, job: Job, number: int, stream: StoryStream, stops: Sequence[str] = ()) -> None:
        self.job, self.number, self.stream, self.stops = job, number, stream, stops
        self.codes, self.told, self.told_at, self.segments = 0, 0, -math.inf, 0
        self.stop: tuple[int, int] | None = None  # characters of the text that stopped it

    @property
    def done(self) -> bool:
        return self.stream.draft.done or self.stop is not None

    def events(self, now: float, pause: float) -> list[Event]:
        """What is new, and the text if it was not told for so many seconds."""
        plan, found = self.stream.draft.plan or (), []
        if len(plan) > self.codes:
            self.codes = len(plan)
            found.append(Event("plan", {"i": self.number, "codes": list(plan)}))
        due = now - self.told_at >= pause
        if due or self.stops or self.done:
            self.stream.grow()
            end = self._end()
            if end > self.told and (due or self.done):
                first = max(0, self.segments - 1)  # the last one told may have grown
                segments = self._segments(end)
                data = {"delta": self.stream.text[self.told : end], "first": first, "segments": segments[first:]}
                found.append(Event("text", {"i": self.number, **data}))
                self.told, self.told_at, self.segments = end, now, len(segments)
        if self.done:
            found.append(Event("done", {"i": self.number, "record": self._record(), "usage": self._usage()}))
        return found

    def _end(self) -> int:
        """How much of the text can be told: up to a stop; what may be the beginning of one is held back."""
        text, longest = self.stream.text, max(map(len, self.stops), default=1)
        if self.stop is None:
            from_here = max(0, self.told - longest)
            found = [(at, at + len(stop)) for stop in self.stops if (at := text.find(stop, from_here)) >= 0]
            self.stop = min(found, default=None)
        if self.stop is not None:
            return self.stop[0]
        return len(text) if self.stream.draft.done else len(text) - longest + 1

    def _segments(self, end: int) -> list[list[int]]:
        cut = ([code, start, min(stop, end)] for code, start, stop in self.stream.segments)
        return [each for each in cut if each[2] > each[1]]

    def _record(self) -> dict[str, Any]:
        request, stream = self.stream.draft.request, self.stream
        end = len(stream.text) if self.stop is None else self.stop[0]
        story = stream.story if stream.draft.done else None
        return {
            "id": request.id or str(request.index), "prompt": request.prompt, "story": stream.text[:end],
            "plan": list(stream.draft.plan or ()), "seed": request.seed, "model": stream.model,
            "finish": story.finish if story and self.stop is None else "stop",
            "segments": self._segments(end), **(story.notes if story else {}),
        }  # fmt: skip

    def _usage(self) -> dict[str, int]:
        """Subwords read and written; of a story that was stopped, those up to the end of what stopped it."""
        draft, written = self.stream.draft, len(self.stream.draft.symbols)
        if self.stop is not None:
            written = min(written, bisect_left(self.stream.starts, self.stop[1]))
        return {"prompt_tokens": len(draft.prompt), "completion_tokens": written}


class Scribe:
    """Start it inside the event loop of the server."""

    def __init__(self, writer: StoryWriter, *, rows: int = ROWS) -> None:
        self.writer, self.model_hash = writer, writer_hash(writer.directory)
        self._batch = writer.batch(rows)
        self._limit = rows + MOST_WAITING
        self._growing: dict[StoryDraft, _Growing] = {}
        self._spent = 0.0
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="scribe", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def writing(self) -> int:
        """Stories that are not done."""
        return len(self._growing)

    @property
    def written(self) -> float | None:
        """CPU seconds spent so far; None while no story is written."""
        return self._spent if self._growing else None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        self._work.put(None)
        self._thread.join(timeout=10)

    async def run(self, work: Callable[[], T]) -> T:
        """Do some work with the model between two steps."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def done(value: Any, error: BaseException | None) -> None:
            if not future.cancelled():
                future.set_exception(error) if error is not None else future.set_result(value)

        def task() -> None:
            try:
                value = work()
            except BaseException as error:
                loop.call_soon_threadsafe(done, None, error)
            else:
                loop.call_soon_threadsafe(done, value, None)

        self._work.put(task)
        return await future

    async def write(
        self, job: Job, requests: Sequence[Request], params: SamplingParams, *, stops: Sequence[str] = ()
    ) -> None:
        """Let stories of a job be written from the next step on; all of them, or none and an error."""

        def admit() -> None:
            if len(self._growing) + len(requests) > self._limit:
                raise HttpError(503, "too many stories are waiting; ask again later", headers={"retry-after": "5"})
            for request in requests:
                self.writer.draft(request, params)  # refuses what cannot be written before anything is
            ahead = max(0, len(self._growing) + len(requests) - (self._limit - MOST_WAITING))
            self._deliver([(job, Event("queued", {"ahead": ahead}))])
            for number, request in enumerate(requests):
                draft = self._batch.add(request, params)
                self._growing[draft] = _Growing(job, number, StoryStream(self.writer, draft, self._batch), stops)

        await self.run(admit)

    async def stop(self, job: Job) -> None:
        """Take the stories of a job out of the batch: their rows are free in the next step."""

        def cancel() -> None:
            mine = [draft for draft, growing in self._growing.items() if growing.job is job]
            for draft in mine:
                self._batch.cancel(draft)
                growing = self._growing.pop(draft)
                self._deliver([(job, event) for event in growing.events(time.monotonic(), 0)])
            if mine:
                self._deliver([(job, Event("stopped", {}))])

        await self.run(cancel)

    def _run(self) -> None:
        while True:
            try:
                while True:
                    task = self._work.get(block=not self._growing)
                    if task is None:
                        return
                    task()
            except Empty:
                pass
            try:
                self._step()
            except Exception as error:
                self._fail(error)

    def _step(self) -> None:
        events, now, pause = [], time.monotonic(), max(1 / DELTAS, len(self._growing) / SENDS)
        for draft in self._batch.step():
            growing = self._growing.get(draft)
            if growing is None:
                continue
            events += [(growing.job, event) for event in growing.events(now, pause)]
            if growing.done:
                if not draft.done:  # a stop ended it: its row is free in the next step
                    self._batch.cancel(draft)
                del self._growing[draft]
        if events:
            self._deliver(events)
        self._spent = time.thread_time()

    def _fail(self, error: Exception) -> None:
        """A fault of ours ends all jobs, and the server goes on with an empty batch."""
        _log.error("writing failed", exc_info=error)
        jobs = {growing.job for growing in self._growing.values()}
        self._growing, self._batch = {}, self.writer.batch(self._limit - MOST_WAITING)
        self._deliver([(job, Event("error", {"message": f"writing failed ({type(error).__name__})"})) for job in jobs])

    def _deliver(self, events: list[tuple[Job, Event]]) -> None:
        def deliver() -> None:
            for job, event in events:
                job.add(event)

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deliver)
