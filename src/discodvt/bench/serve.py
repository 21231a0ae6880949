"""Bench of serving: the studio's server in a process of its own against the writer in this one.

Streams are stories asked for at the same moment over as many connections. Lengths are forced, so that both sides write
the same number of subwords; where texts are compared, each is compared with what `StoryWriter.write_many` writes here.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from discodvt.bench.random_writers import PROMPTS
from discodvt.bench.rows import BenchRow, interleave, ratio_row, unmeasured_row
from discodvt.bench.story_server import StoryServer, events, story_server
from discodvt.checkpoints import STORYTELLER
from discodvt.errors import WorkFailed
from discodvt.studio.jobs import Job
from discodvt.studio.scribe import ROWS, Scribe
from discodvt.web.server import SEND_BYTES
from discodvt.writing import Request, SamplingParams, StoryBatch, StoryWriter
from discodvt.writing.control import rewrite
from discodvt.writing.engines.compiled import BUSY
from discodvt.writing.story_batch import StoryDraft

STREAMS, MANY_STREAMS, BATCH, CLIENTS = 64, 200, 32, 200
TOKENS, STORY_TOKENS, SHORT_TOKENS, GOOD_TOKENS = 64, 192, 4, 200  # the storyteller's stories have about 190
LONG_STORIES, LONG_TOKENS = 8, 300
LONG_ANSWER = 8 * SEND_BYTES  # more than the sockets of a client that never reads hold
CANCELLED_TOKENS = 400
STORIES = 5_000
WARM = 0.2  # of the stories, after which memory is looked at first
AT_ONCE = 250  # stories of the memory row that are asked for together


def bench_serve(
    model: str | None = None,
    *,
    rounds: int = 3,
    scale: float = 1.0,
    stories: int = STORIES,
    minutes: float = 15.0,
) -> Iterator[BenchRow]:
    """The rows as they are measured, for a writer's directory or the storyteller that ships; none is begun too late."""
    ends = time.monotonic() + 60 * minutes
    directory = model or str(STORYTELLER)
    writer = StoryWriter.from_pretrained(directory)
    tokens, story_tokens, good_tokens = (max(8, round(each * scale)) for each in (TOKENS, STORY_TOKENS, GOOD_TOKENS))
    with story_server(directory, rows=ROWS) as server:
        rows: list[Callable[[], BenchRow | Iterator[BenchRow]]] = [
            lambda: _streams(writer, server, max(4, round(MANY_STREAMS * scale)), tokens),
            lambda: _throughput(writer, server, max(4, round(STREAMS * scale)), story_tokens, rounds),
            lambda: asyncio.run(_cancel(writer)),
            lambda: _never_reading(writer, server, max(4, round(CLIENTS * scale)), good_tokens, rounds),
            lambda: _rewrite(writer, tokens, rounds),
            lambda: _memory(writer, server, stories, ends),
        ]
        for row in rows:
            if time.monotonic() > ends:
                yield unmeasured_row("further rows", f"the {minutes:g} minutes (--minutes) were over")
                return
            found = row()
            yield from [found] if isinstance(found, BenchRow) else found


def _asked(number: int, **settings: Any) -> tuple[str, dict[str, Any]]:
    prompt = PROMPTS[number % len(PROMPTS)]
    return "/api/stories", {"prompt": prompt, "seed": number, "settings": settings}


def _requests(count: int) -> list[Request]:
    return [Request(PROMPTS[number % len(PROMPTS)], seed=number, id=str(number)) for number in range(count)]


def _settings(writer: StoryWriter, tokens: int, *, forced: bool = False) -> dict[str, Any]:
    """Lengths of a story of so many subwords: the plan is no longer than it needs."""
    codes = {}
    if writer.latent:
        needed = max(1, tokens // writer.latent.tokens_per_code)
        codes = {"min_codes": 1, "max_codes": min(needed, writer.lengths.max_codes)}
    return {"max_tokens": tokens, **({"min_tokens": tokens} if forced else {}), **codes}


def _streams(writer: StoryWriter, server: StoryServer, count: int, tokens: int) -> BenchRow:
    """Streams that are lost, or are not the story `generate` writes for that seed."""
    settings = _settings(writer, tokens)
    params = SamplingParams(**settings)
    expected = {story.id: story for story in writer.write_many(_requests(count), params, batch_size=BATCH)}
    bodies = server.ask([_asked(number, **settings) for number in range(count)])
    wrong = 0
    for number, body in enumerate(bodies):
        found, story = events(body), expected[str(number)]
        text = "".join(data["delta"] for name, data in found if name == "text")
        records = [data["record"] for name, data in found if name == "done"]
        same = len(records) == 1 and tuple(records[0]["plan"]) == story.plan and records[0]["finish"] == story.finish
        wrong += not (same and text == story.text == records[0]["story"])
    note = f"{wrong} of {count} concurrent streams are lost or differ from generate"
    return ratio_row("streams lost or different / streams", [wrong], [count], at_most=0, note=note)


def _timed(work: Callable[[], object], cpu_seconds: Callable[[], float]) -> tuple[float, float]:
    """Seconds of CPU time and of the clock."""
    started, clock = cpu_seconds(), time.perf_counter()
    work()
    return cpu_seconds() - started, time.perf_counter() - clock


def _row(
    name: str, found: Sequence[tuple[float, float]], against: Sequence[tuple[float, float]], note: str, **promise: Any
) -> BenchRow:
    """The ratio of CPU times; that of the clock, which on a machine that others use says less, in its note."""
    clock = median(a[1] / b[1] for a, b in zip(found, against, strict=True))
    cpu = [each for each, _ in found], [each for each, _ in against]
    return ratio_row(name, cpu[0], cpu[1], note=f"{note}; by the clock {clock:.2f}", **promise)


def _throughput(writer: StoryWriter, server: StoryServer, count: int, tokens: int, rounds: int) -> BenchRow:
    """Subwords a second of streams against a batch in one process, both with compiled steps."""
    settings = _settings(writer, tokens, forced=True)
    params, asked = SamplingParams(**settings), [_asked(number, **settings) for number in range(count)]
    busy = _settings(writer, LONG_TOKENS, forced=True)
    for number in range(-(-BUSY // LONG_TOKENS)):
        list(writer.write_many(_requests(1), SamplingParams(**busy)))
        server.ask([_asked(number, **busy)])

    def write() -> None:
        list(writer.write_many(_requests(count), params, batch_size=BATCH))

    alone, served = [], []
    for _ in range(max(5, rounds)):
        alone.append(_timed(write, time.process_time))
        served.append(_timed(lambda: server.ask(asked), lambda: server.cpu_seconds))
    speeds = [count * tokens / min(clock for _, clock in each) for each in (served, alone)]
    by_cpu = median(a[0] / b[0] for a, b in zip(alone, served, strict=True))
    note = f"{speeds[0]:,.0f} subwords a second served, {speeds[1]:,.0f} by write_many; by CPU time {by_cpu:.2f}"
    name = f"{count} streams / write_many at batch {BATCH}, subwords a second"
    clocks = [[clock for _, clock in each] for each in (alone, served)]
    return ratio_row(name, clocks[0], clocks[1], at_least=0.85, note=note)


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


def _never_reading(
    writer: StoryWriter, server: StoryServer, clients: int, tokens: int, rounds: int
) -> Iterator[BenchRow]:
    """The server's CPU time for a story beside clients that never read what they asked for, and without them.

    They have stalled: each has more to be sent than its sockets take. They come at the moment the story is asked for,
    with the same wish. They follow the story itself, having come before the one that reads it.
    """
    path, body = _asked(0, **_settings(writer, LONG_TOKENS, forced=True))
    other = _job(server, path, body | {"n": LONG_STORIES})
    answer = len(server.read(other))  # when it is written
    times = -(-LONG_ANSWER // answer)
    asked = _asked(1, **_settings(writer, tokens, forced=True))

    def good() -> tuple[float, float]:
        return _timed(lambda: server.ask([asked]), lambda: server.cpu_seconds)

    def followed(by: int) -> tuple[float, float]:
        def follow() -> None:
            job = _job(server, *asked)
            leaving.enter_context(server.never_reading(by, job))
            server.read(job)

        with ExitStack() as leaving:
            return _timed(follow, lambda: server.cpu_seconds)

    taken: dict[str, list[tuple[float, float]]] = defaultdict(list)
    stalled = clients
    for _ in range(max(11, 2 * rounds + 1)):
        server.wait_idle()
        taken["alone"].append(good())
        with server.never_reading(clients, other, times=times):
            taken["coming"].append(good())
            server.wait_idle()
            taken["beside"].append(good())
            stalled = min(stalled, server.stalled(times * answer))
        for name, by in (("read", 0), ("followed", clients)):
            server.wait_idle()
            taken[name].append(followed(by))

    name = f"CPU time of a story / without {clients} clients that never read"
    note = f"{1000 * min(cpu for cpu, _ in taken['alone']):.0f} ms without"
    if stalled < clients:
        why = f"only {stalled} of {clients} clients had more to be sent than their sockets take"
        yield unmeasured_row(f"{name}, and have stalled", why, at_most=1.1)
    else:
        yield _row(f"{name}, and have stalled", taken["beside"], taken["alone"], note, at_most=1.1)
    yield _row(f"{name}, as they come", taken["coming"], taken["alone"], note, at_most=1.1)
    yield _row(f"{name}, and follow it", taken["followed"], taken["read"], note, at_most=1.1)


def _job(server: StoryServer, path: str, value: dict[str, Any]) -> str:
    """Where the events of a story that was asked for are told."""
    return f"/api/jobs/{json.loads(server.ask([(path, value)], accept='application/json')[0])['job']}/events"


def _rewrite(writer: StoryWriter, tokens: int, rounds: int) -> BenchRow:
    """A story written anew from the middle of its plan against the whole story, in this process."""
    params = SamplingParams(**_settings(writer, 3 * tokens, forced=True))
    asked = Request(PROMPTS[0], seed=3)
    (story,) = writer.write_many([asked], params)
    place = len(story.segments) // 2
    changed = rewrite(story, place, seed=4)

    def write(request: Request) -> None:
        list(writer.write_many([request], params))

    works: list[Callable[[], object]] = [partial(write, changed), partial(write, asked)]
    taken = interleave(works, max(5, rounds), clock=time.process_time)
    name = "rewriting from the middle of a story / writing all of it, CPU time"
    note = f"from code {place} of {len(story.segments)}, {1000 * min(taken[1]):.0f} ms for the whole"
    return ratio_row(name, *taken, at_most=0.7, note=note)


def _memory(writer: StoryWriter, server: StoryServer, stories: int, ends: float) -> BenchRow:
    """Memory of the server after all stories against after the first ones."""
    warm, held, done = max(1, round(WARM * stories)), 0.0, 0
    started = time.perf_counter()
    settings = _settings(writer, SHORT_TOKENS)
    while done < stories and (done <= warm or time.monotonic() < ends):
        count = min(AT_ONCE, (warm if done < warm else stories) - done)
        server.ask([_asked(number, **settings) for number in range(done, done + count)], at_once=STREAMS)
        done += count
        if done == warm:
            held = float(server.memory)
    now = float(server.memory)
    if not (held and now):
        raise WorkFailed("the memory of a process is read from /proc, which this system has not")
    note = f"{now / 2**20:,.0f} MiB, {done / (time.perf_counter() - started):,.0f} stories/s"
    if done < stories:
        note += f"; {stories:,} were asked for, the time (--minutes) was over"
    name = f"memory after {done:,} stories / after {warm:,}"
    return ratio_row(name, [now], [held], at_most=1.1, note=note)
