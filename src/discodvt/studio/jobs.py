"""Jobs: what a request asked for, as an append-only list of events that any number of readers follow from any place."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, NamedTuple

from discodvt.web.access import HttpError
from discodvt.web.lane import Lane

KEPT_SECONDS = 300.0
MOST_KEPT = 1_000
PING_SECONDS = 15.0
MOST_AT_ONCE = 250  # events of one send, about 35 KB
SEND_COST = 0.03  # CPU seconds of writing for which one who follows is sent to
ENDS = ("stopped", "error", "chosen")


class Event(NamedTuple):
    """Something that happened; its id is its number in the job, from 1."""

    name: str
    data: dict[str, Any]

    def as_sse(self, number: int) -> bytes:
        return f"id: {number}\nevent: {self.name}\ndata: {json.dumps(self.data, ensure_ascii=False)}\n\n".encode()


class Job:
    """Lives in the event loop; only `Scribe` adds to it, or an `Errand` to one of its own."""

    def __init__(self, stories: int) -> None:
        self.id = secrets.token_urlsafe(16)
        self.open = stories  # not done yet
        self.events: list[Event] = []
        self._as_sse: list[bytes] = []  # those that a reader has asked for, written once for all readers
        self.ended_at: float | None = None
        self._grown = asyncio.Event()
        self._lane: Lane | None = None  # of those who follow it
        self.source: Job | None = None  # of an errand: the job whose events it passes on
        self.project: str | None = None  # where its stories are kept
        self.about: dict[str, Any] = {}  # for a page that comes to it later
        self.task: asyncio.Task[None] | None = None

    def add(self, event: Event) -> None:
        self.events.append(event)
        if event.name == "done":
            self.open -= 1
        if event.name in ENDS or not self.open:
            self.ended_at = self.ended_at or time.monotonic()
            if self._lane is not None:
                self._lane.hurry(self.id)
        self._grown.set()
        self._grown = asyncio.Event()

    async def grown(self, after: int) -> bool:
        """Wait for events behind `after`; False where long nothing came."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PING_SECONDS):
                while len(self.events) <= after and self.ended_at is None:
                    await self._grown.wait()
        return len(self.events) > after

    def told(self, after: int) -> bool:
        """Whether nothing comes behind `after` any more."""
        return self.ended_at is not None and len(self.events) <= after

    async def follow(self, after: int = 0) -> AsyncIterator[tuple[int, Event] | None]:
        """Events one by one with their numbers; None where long nothing came."""
        while not self.told(after):
            if not await self.grown(after):
                yield None
            for event in self.events[after:]:
                after += 1
                yield after, event

    async def as_sse(self, after: int = 0, *, lane: Lane | None = None) -> AsyncIterator[bytes]:
        """Events as a client reads them. One that is behind gets much in one piece: that is what a send costs.

        Whoever asked for the story is told at once; others follow it in a lane, but for its end.
        """
        self._lane = lane or self._lane
        while not self.told(after):
            writing = self.ended_at is None
            grown = await self.grown(after)
            if lane is not None and not (writing and self.ended_at is not None):
                await lane.turn(self.id, SEND_COST)
            known, end = len(self._as_sse), min(len(self.events), after + MOST_AT_ONCE)
            self._as_sse += [event.as_sse(known + n) for n, event in enumerate(self.events[known:end], 1)]
            yield b"".join(self._as_sse[after:end]) if grown else b": ping\n\n"
            after = end


class Jobs:
    """Jobs by id; those that ended are forgotten after a while, or when there are too many."""

    def __init__(self) -> None:
        self._held: dict[str, Job] = {}

    def __len__(self) -> int:
        return len(self._held)

    def new(self, stories: int) -> Job:
        now, surplus = time.monotonic(), len(self._held) - MOST_KEPT
        for job in list(self._held.values()):  # the oldest first
            if job.ended_at is not None and (now - job.ended_at > KEPT_SECONDS or surplus > 0):
                del self._held[job.id]
                surplus -= 1
        job = Job(stories)
        self._held[job.id] = job
        return job

    def get(self, id: str) -> Job:
        if id not in self._held:
            raise HttpError(404, "no such job; those that ended are kept for a few minutes")
        return self._held[id]

    def of(self, project: str) -> list[dict[str, Any]]:
        """The jobs that write for a project now."""
        held = [job for job in list(self._held.values()) if job.project == project and job.ended_at is None]
        return [{"job": job.id, **job.about} for job in held]

    def forget(self, job: Job) -> None:
        self._held.pop(job.id, None)
