"""Events of a job: readers that are behind get much at once, and an event is written as JSON once for all of them."""

import asyncio
from itertools import islice

from discodvt.studio import jobs
from discodvt.studio.jobs import MOST_AT_ONCE, Event, Job


def written(count: int, *, done: bool = True) -> Job:
    job = Job(1)
    for number in range(count - done):
        job.add(Event("text", {"delta": str(number)}))
    if done:
        job.add(Event("done", {}))
    return job


def read(job: Job, after: int = 0) -> bytes:
    async def pieces() -> bytes:
        return b"".join([piece async for piece in job.as_sse(after)])

    return asyncio.run(pieces())


def test_every_event_is_written_once_however_many_read_and_from_wherever(monkeypatch):
    plain, numbers = Event.as_sse, []

    def counted(event: Event, number: int) -> bytes:
        numbers.append(number)
        return plain(event, number)

    monkeypatch.setattr(Event, "as_sse", counted)
    job = written(30)
    each = [plain(event, number) for number, event in enumerate(job.events, 1)]
    assert read(job, 20) == b"".join(islice(each, 20, None))
    assert read(job) == read(job) == b"".join(each)
    assert numbers == list(range(1, 31))


def test_a_reader_that_is_behind_gets_much_in_one_piece_and_then_what_comes():
    async def follow() -> None:
        job = written(MOST_AT_ONCE + 5, done=False)
        pieces = job.as_sse()
        assert (await anext(pieces)).count(b"\n\n") == MOST_AT_ONCE
        assert (await anext(pieces)).count(b"\n\n") == 5
        coming = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0)
        job.add(Event("done", {}))
        assert await coming == job.events[-1].as_sse(MOST_AT_ONCE + 6)
        assert [piece async for piece in pieces] == []

    asyncio.run(follow())


def test_a_reader_of_a_silent_job_is_pinged(monkeypatch):
    monkeypatch.setattr(jobs, "PING_SECONDS", 0.01)

    async def follow() -> None:
        pieces = written(1, done=False).as_sse()
        assert (await anext(pieces)).startswith(b"id: 1\n")
        assert [await anext(pieces), await anext(pieces)] == [b": ping\n\n"] * 2

    asyncio.run(follow())


def test_many_readers_are_sent_to_no_oftener_than_few(monkeypatch):
    monkeypatch.setattr(jobs, "SENDS", 200)

    async def follow(readers: int) -> int:
        job, sends = Job(1), []

        async def read_all() -> None:
            async for piece in job.as_sse():
                sends.append(piece)

        following = [asyncio.ensure_future(read_all()) for _ in range(readers)]
        for number in range(100):
            job.add(Event("text", {"delta": str(number)}))
            await asyncio.sleep(0.005)
        job.add(Event("done", {}))
        await asyncio.gather(*following)
        assert b"".join(sends).count(b"event: done") == readers
        return len(sends)

    one, many = asyncio.run(follow(1)), asyncio.run(follow(50))
    assert one > 30
    assert many < 4 * one + 2 * 50  # it would be 50 times as many; each has a first send and a last
    assert jobs._readers.count == 0


def test_readers_that_do_not_read_do_not_slow_those_that_do(monkeypatch):
    monkeypatch.setattr(jobs, "SENDS", 1)

    async def follow() -> None:
        job = written(1, done=False)
        stalled = [job.as_sse() for _ in range(50)]
        for each in stalled:
            await anext(each)  # and no more
        assert jobs._readers.count == 0
        for each in stalled:
            await each.aclose()

    asyncio.run(follow())
    assert jobs._readers.count == 0


def test_the_end_is_told_at_once(monkeypatch):
    monkeypatch.setattr(jobs, "SENDS", 0.001)

    async def follow() -> None:
        job = written(1, done=False)
        pieces = job.as_sse()
        await anext(pieces)
        last = asyncio.ensure_future(anext(pieces))
        await asyncio.sleep(0.01)
        job.add(Event("text", {"delta": "a"}))
        await asyncio.sleep(0.01)
        assert not last.done()
        job.add(Event("done", {}))
        assert (await asyncio.wait_for(last, 10)).count(b"\n\n") == 2

    asyncio.run(follow())
