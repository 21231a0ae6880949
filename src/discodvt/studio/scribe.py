"""The thread that owns the model: it steps the batch that all requests share, and runs other work between two steps.

Engines set switches of PyTorch while they compute, so nothing else may. What has grown in a step is handed to the event
loop once a step; of each story at most `DELTAS` times a second.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from discodvt.studio.jobs import Event, Job
from discodvt.web.access import HttpError
from discodvt.writing import Request, SamplingParams, StoryStream, StoryWriter
from discodvt.writing.story_batch import StoryDraft

ROWS = 64
MOST_WAITING = 256
DELTAS = 30.0
T = TypeVar("T")


class _Growing:
    """A story of a job: its stream, and what of it was told."""

    def __init__(self, job: Job, number: int, stream: StoryStream) -> None:
        self.job, self.number, self.stream = job, number, stream
        self.planned, self.told_at, self.segments = False, 0.0, 0

    def events(self, now: float) -> list[Event]:
        draft, found = self.stream.draft, []
        if not self.planned and draft.plan is not None:
            self.planned = True
            found.append(Event("plan", {"i": self.number, "codes": list(draft.plan)}))
        if draft.done or now - self.told_at >= 1 / DELTAS:
            piece = self.stream.grow()
            if piece:
                self.told_at = now
                first = max(0, self.segments - 1)  # the last one told may have grown
                self.segments = len(self.stream.segments)
                later = [list(segment) for segment in self.stream.segments[first:]]
                found.append(Event("text", {"i": self.number, "delta": piece, "first": first, "segments": later}))
        if draft.done:
            story = self.stream.story
            record = {
                "id": story.id, "prompt": story.prompt, "story": story.text, "plan": list(story.plan),
                "seed": story.seed, "model": story.model, "finish": story.finish,
                "segments": [list(segment) for segment in story.segments], **story.notes,
            }  # fmt: skip
            usage = {"prompt_tokens": len(draft.prompt), "completion_tokens": len(draft.symbols)}
            found.append(Event("done", {"i": self.number, "record": record, "usage": usage}))
        return found


class Scribe:
    """Start it inside the event loop of the server."""

    def __init__(self, writer: StoryWriter, *, rows: int = ROWS) -> None:
        self.writer = writer
        self._batch = writer.batch(rows)
        self._limit = rows + MOST_WAITING
        self._growing: dict[StoryDraft, _Growing] = {}
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="scribe", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def writing(self) -> int:
        """Stories that are not done."""
        return len(self._growing)

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

    async def write(self, job: Job, requests: Sequence[Request], params: SamplingParams) -> None:
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
                self._growing[draft] = _Growing(job, number, StoryStream(self.writer, draft, self._batch))

        await self.run(admit)

    async def stop(self, job: Job) -> None:
        """Take the stories of a job out of the batch: their rows are free in the next step."""

        def cancel() -> None:
            mine = [draft for draft, growing in self._growing.items() if growing.job is job]
            for draft in mine:
                self._batch.cancel(draft)
                growing = self._growing.pop(draft)
                self._deliver([(job, event) for event in growing.events(time.monotonic() + 1)])
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
        events, now = [], time.monotonic()
        for draft in self._batch.step():
            growing = self._growing.get(draft)
            if growing is None:
                continue
            events += [(growing.job, event) for event in growing.events(now)]
            if draft.done:
                del self._growing[draft]
        if events:
            self._deliver(events)

    def _fail(self, error: Exception) -> None:
        """A fault of ours ends all jobs, and the server goes on with an empty batch."""
        jobs = {growing.job for growing in self._growing.values()}
        self._growing, self._batch = {}, self.writer.batch(self._limit - MOST_WAITING)
        self._deliver([(job, Event("error", {"message": f"writing failed ({type(error).__name__})"})) for job in jobs])

    def _deliver(self, events: list[tuple[Job, Event]]) -> None:
        def deliver() -> None:
            for job, event in events:
                job.add(event)

        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(deliver)
