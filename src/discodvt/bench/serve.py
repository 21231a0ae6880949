"""Bench of serving: the studio's server in a process of its own against the writer in this one.

Streams are stories asked for at the same moment over as many connections. Lengths are forced, so that both sides write
the same number of subwords; where texts are compared, each is compared with what `StoryWriter.write_many` writes here.
"""

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from discodvt.bench.random_writers import PROMPTS
from discodvt.bench.rows import BenchRow, interleave, ratio_row
from discodvt.bench.story_server import StoryServer, events, story_server
from discodvt.checkpoints import STORYTELLER
from discodvt.errors import WorkFailed
from discodvt.studio.jobs import Job
from discodvt.studio.scribe import ROWS, Scribe
from discodvt.writing import Request, SamplingParams, StoryBatch, StoryWriter
from discodvt.writing.story_batch import StoryDraft

STREAMS, MANY_STREAMS, BATCH, CLIENTS = 64, 200, 32, 200
TOKENS, SHORT_TOKENS = 64, 4
CANCELLED_TOKENS = 400
STORIES = 5_000
WARM = 0.2  # of the stories, after which memory is looked at first


def bench_serve(
    model: str | None = None, *, rounds: int = 3, scale: float = 1.0, stories: int = STORIES
) -> list[BenchRow]:
    """The rows, for a writer's directory or the storyteller that ships."""
    directory = model or str(STORYTELLER)
    writer = StoryWriter.from_pretrained(directory)
    tokens = max(8, round(TOKENS * scale))
    with story_server(directory, rows=ROWS) as server:
        return [
            _streams(writer, server, max(4, round(MANY_STREAMS * scale)), tokens),
            _throughput(writer, server, max(4, round(STREAMS * scale)), tokens, rounds),
            asyncio.run(_cancel(writer)),
            _never_reading(server, max(4, round(CLIENTS * scale)), tokens, rounds),
            _memory(server, stories),
        ]


def _asked(number: int, **settings: Any) -> tuple[str, dict[str, Any]]:
    prompt = PROMPTS[number % len(PROMPTS)]
    return "/api/stories", {"prompt": prompt, "seed": number, "settings": settings}


def _requests(count: int) -> list[Request]:
    return [Request(PROMPTS[number % len(PROMPTS)], seed=number, id=str(number)) for number in range(count)]


def _streams(writer: StoryWriter, server: StoryServer, count: int, tokens: int) -> BenchRow:
    """Streams that are lost, or are not the story `generate` writes for that seed."""
    params = SamplingParams(max_tokens=tokens)
    expected = {story.id: story for story in writer.write_many(_requests(count), params, batch_size=BATCH)}
    bodies = server.ask([_asked(number, max_tokens=tokens) for number in range(count)])
    wrong = 0
    for number, body in enumerate(bodies):
        found, story = events(body), expected[str(number)]
        text = "".join(data["delta"] for name, data in found if name == "text")
        records = [data["record"] for name, data in found if name == "done"]
        same = len(records) == 1 and tuple(records[0]["plan"]) == story.plan and records[0]["finish"] == story.finish
        wrong += not (same and text == story.text == records[0]["story"])
    note = f"{wrong} of {count} concurrent streams are lost or differ from generate"
    return ratio_row("streams lost or different / streams", [wrong], [count], at_most=0, note=note)


def _throughput(writer: StoryWriter, server: StoryServer, count: int, tokens: int, rounds: int) -> BenchRow:
    """Subwords a second of streams against a batch in one process."""
    params = SamplingParams(min_tokens=tokens, max_tokens=tokens)
    asked = [_asked(number, min_tokens=tokens, max_tokens=tokens) for number in range(count)]
    works: list[Callable[[], object]] = [
        lambda: list(writer.write_many(_requests(count), params, batch_size=BATCH)),
        partial(server.ask, asked),
    ]
    interleave(works, 1)  # warm up
    alone, served = interleave(works, rounds)
    note = f"{count * tokens / min(served):,.0f} subwords/s served, {count * tokens / min(alone):,.0f} by write_many"
    name = f"{count} streams / write_many at batch {BATCH}, subwords/s"
    return ratio_row(name, alone, served, at_least=0.85, note=note)


class _CountedBatch(StoryBatch):
    """A batch that counts its steps, and knows at which one each story got its first subword."""

    def __init__(self, writer: StoryWriter) -> None:
        super().__init__(writer, 1)
        self.steps = self.cancelled_at = 0
        self.first: dict[int, int] = {}

    def cancel(self, draft: StoryDraft) -> None:
        self.cancelled_at = self.steps
        super().cancel(draft)

    def step(self) -> list[StoryDraft]:
        self.steps += 1
        grown = super().step()
        for draft in grown:
            if draft.symbols:
                self.first.setdefault(draft.request.seed, self.steps)
        return grown


async def _cancel(writer: StoryWriter) -> BenchRow:
    """Steps from the moment a story is cancelled to the first subword of the one that waits for its row."""
    steps, long = [], SamplingParams(min_tokens=CANCELLED_TOKENS, max_tokens=CANCELLED_TOKENS)
    for _ in range(3):
        scribe, batch = Scribe(writer, rows=1), _CountedBatch(writer)
        scribe._batch = batch
        scribe.start()
        try:
            first, second = Job(1), Job(1)
            await scribe.write(first, [Request(PROMPTS[0], seed=1)], long)
            await scribe.write(second, [Request(PROMPTS[1], seed=2)], SamplingParams(max_tokens=8))
            await _until(second, "plan")  # drawn while it waits: only the row of the text is missing
            await scribe.stop(first)
            await _until(second, "done")
            steps.append(batch.first[2] - batch.cancelled_at)
            if steps[-1] < 1:
                raise WorkFailed("the story that waited was written before the only row was free")
        finally:
            scribe.close()
    note = "steps until the next story has the row"
    return ratio_row("steps from a cancel to the freed row", steps, [1] * len(steps), at_most=1, note=note)


async def _until(job: Job, name: str) -> None:
    async for found in job.follow():
        if found and found[1].name == name:
            return
        if found and found[1].name == "error":
            raise WorkFailed(found[1].data["message"])


def _never_reading(server: StoryServer, clients: int, tokens: int, rounds: int) -> BenchRow:
    """The server's CPU time for a story while other clients, whose requests were answered, never read; and without."""
    settings = {"min_tokens": 2 * tokens, "max_tokens": 2 * tokens}
    (job,) = server.ask([_asked(0, **settings)], accept="application/json")
    path = f"/api/jobs/{json.loads(job)['job']}/events"

    def good() -> tuple[float, float]:
        started, clock = server.cpu_seconds, time.perf_counter()
        server.ask([_asked(1, **settings)])
        return server.cpu_seconds - started, time.perf_counter() - clock

    good()  # at its end the other one is written too
    beside, without = [], []
    for _ in range(max(5, rounds)):
        without.append(good())
        with server.never_reading(clients, path):
            server.ask([_asked(2, min_tokens=1, max_tokens=SHORT_TOKENS)])  # comes after their requests
            beside.append(good())
    waited = median(b[1] / w[1] for b, w in zip(beside, without, strict=True))
    name = f"CPU time of a story beside {clients} clients that never read / without"
    note = f"{1000 * min(cpu for cpu, _ in without):.0f} ms of CPU without; by the clock {waited:.2f}"
    return ratio_row(name, [cpu for cpu, _ in beside], [cpu for cpu, _ in without], at_most=1.1, note=note)


def _memory(server: StoryServer, stories: int) -> BenchRow:
    """Memory of the server after all stories against after the first ones."""
    warm, held = max(1, round(WARM * stories)), []
    started = time.perf_counter()
    settings = {"max_tokens": SHORT_TOKENS, "min_tokens": 1, "min_codes": 1, "max_codes": 1}
    for first, last in ((0, warm), (warm, stories)):
        server.ask([_asked(number, **settings) for number in range(first, last)], at_once=STREAMS)
        held.append(float(server.memory))
    note = f"{held[1] / 2**20:,.0f} MiB, {stories / (time.perf_counter() - started):,.0f} stories/s"
    if not all(held):
        raise WorkFailed("the memory of a process is read from /proc, which this system has not")
    name = f"memory after {stories:,} stories / after {warm:,}"
    return ratio_row(name, held[1:], held[:1], at_most=1.1, note=note)
