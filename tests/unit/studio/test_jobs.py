"""Events of a job: readers that are behind get much at once, and an event is written as JSON once for all of them."""

import asyncio
from itertools import islice

import pytest

from discodvt.studio import jobs
from discodvt.studio.jobs import MOST_AT_ONCE, SEND_COST, Event, Job
from discodvt.web.lane import Lane


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


@pytest.fixture
def no_patience(monkeypatch):
    """Turns are paid for by writing alone."""
    monkeypatch.setattr("discodvt.web.lane.PATIENCE", 1e9)


@pytest.mark.usefixtures("no_patience")
def test_those_who_follow_are_told_as_the_lane_lets_them_and_lose_nothing():
    async def follow() -> None:
        spent: list[float | None] = [0.0]
        job, lane = Job(1), Lane(lambda: spent[0])
        sends: list[list[bytes]] = [[] for _ in range(50)]

        async def read_all(into: list[bytes]) -> None:
            async for piece in job.as_sse(lane=lane):
                into.append(piece)

        following = [asyncio.ensure_future(read_all(into)) for into in sends]
        for number in range(30):
            job.add(Event("text", {"delta": str(number)}))
            spent[0] = number * SEND_COST  # what one send costs
            await asyncio.sleep(0.012)
        assert 1 <= sum(map(len, sends)) <= 30
        job.add(Event("done", {}))
        spent[0] = None  # nothing is written any more
        await asyncio.wait_for(asyncio.gather(*following), 10)
        assert {b"".join(each) for each in sends} == {
            b"".join(event.as_sse(number) for number, event in enumerate(job.events, 1))
        }

    asyncio.run(follow())


@pytest.mark.usefixtures("no_patience")
def test_whoever_asked_for_the_story_does_not_wait_for_those_who_follow_it():
    async def follow() -> None:
        job, lane = written(1, done=False), Lane(lambda: 0.0)  # no turn but the first
        others = [asyncio.ensure_future(anext(job.as_sse(lane=lane))) for _ in range(50)]
        await asyncio.sleep(0.05)
        assert sum(each.done() for each in others) == 1
        pieces = job.as_sse()
        assert (await asyncio.wait_for(anext(pieces), 10)).startswith(b"id: 1\n")
        job.add(Event("done", {}))
        assert (await asyncio.wait_for(anext(pieces), 10)).startswith(b"id: 2\n")
        for each in others:
            each.cancel()

    asyncio.run(follow())


@pytest.mark.usefixtures("no_patience")
def test_the_end_is_told_at_once_to_all_who_follow():
    async def follow() -> None:
        job, lane = written(1, done=False), Lane(lambda: 0.0)  # no turn but the first
        streams = [job.as_sse(lane=lane) for _ in range(3)]
        first = [asyncio.ensure_future(anext(each)) for each in streams]
        await asyncio.sleep(0.05)
        assert [each.done() for each in first] == [True, False, False]  # two wait in the lane
        second = asyncio.ensure_future(anext(streams[0]))  # and one for something to be told
        await asyncio.sleep(0.05)
        job.add(Event("done", {}))
        await asyncio.wait_for(asyncio.gather(*first, second), 10)
        assert [each.result().count(b"event: done") for each in (first[1], first[2], second)] == [1, 1, 1]

    asyncio.run(follow())
