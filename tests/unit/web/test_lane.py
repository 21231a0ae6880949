"""Work that can wait: paid for by CPU time of writing, keys in turn, and no waiting where nothing is written."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from discodvt.web import lane
from discodvt.web.lane import Lane


class Writing:
    """CPU seconds of stories, as a test says."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds

    def __call__(self) -> float | None:
        return self.seconds


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    monkeypatch.setattr(lane, "LOOK_SECONDS", 0.0)


def doing(done: list[str], name: str, cost: float = 1.0) -> Callable[[], float]:
    def work() -> float:
        done.append(name)
        return cost

    return work


def run(what: Coroutine[Any, Any, None]) -> None:
    asyncio.run(what)


async def rounds(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


def test_where_nothing_is_written_everything_has_its_turn_one_in_a_round():
    async def check() -> None:
        done: list[str] = []
        free = Lane(Writing(None))
        for name in "abc":
            free.add("k", doing(done, name))
        assert done == []
        await asyncio.sleep(0)
        assert done == ["a"]
        await asyncio.sleep(0)
        assert done == ["a", "b"]
        await rounds()
        assert done == ["a", "b", "c"]

    run(check())


def test_a_turn_is_paid_for_by_writing():
    async def check() -> None:
        done: list[str] = []
        writing = Writing(5.0)
        busy = Lane(writing)
        for name in "abc":
            busy.add("k", doing(done, name, cost=1.0))
        await rounds()
        assert done == ["a"]
        writing.seconds = 5.9
        await rounds()
        assert done == ["a"]
        writing.seconds = 6.0
        await rounds()
        assert done == ["a", "b"]
        writing.seconds = None
        await rounds()
        assert done == ["a", "b", "c"]

    run(check())


def test_the_stories_after_a_quiet_time_do_not_pay_for_what_was_done_in_it():
    async def check() -> None:
        done: list[str] = []
        writing = Writing(None)
        found = Lane(writing)
        found.add("k", doing(done, "a", cost=1.0))
        await rounds()
        writing.seconds = 0.0
        found.add("k", doing(done, "b"))
        await rounds()
        assert done == ["a", "b"]

    run(check())


def test_keys_take_turns_and_the_first_of_a_key_goes_before_its_others():
    async def check() -> None:
        done: list[str] = []
        free = Lane(Writing(None))
        for name in ("a1", "a2", "a3"):
            free.add("a", doing(done, name))
        free.add("b", doing(done, "b1"))
        free.add("a", doing(done, "a0"), first=True)
        await rounds()
        assert done == ["a0", "b1", "a1", "a2", "a3"]

    run(check())


def test_whoever_left_costs_nothing():
    async def check() -> None:
        done: list[str] = []
        busy = Lane(Writing(1.0))
        gone = [asyncio.ensure_future(busy.turn("k", 100.0)) for _ in range(50)]
        await asyncio.sleep(0)
        for each in gone[1:]:
            each.cancel()
        busy.add("k", doing(done, "late"))
        await rounds()
        assert gone[0].done()
        assert done == []

        other = Lane(Writing(1.0))
        gone = [asyncio.ensure_future(other.turn("k", 100.0)) for _ in range(5)]
        await asyncio.sleep(0)
        for each in gone:
            each.cancel()
        other.add("k", doing(done, "late"))
        await rounds()
        assert done == ["late"]

    run(check())


def test_writing_that_waits_itself_does_not_keep_others_waiting():
    async def check() -> None:
        done: list[str] = []
        busy = Lane(Writing(0.0))
        for name in "abc":
            busy.add("k", doing(done, name, cost=0.01))
        await asyncio.sleep(0.005)
        assert done == ["a"]
        await asyncio.sleep(lane.PATIENCE * 0.03)
        assert done == ["a", "b", "c"]

    run(check())


def test_what_comes_when_the_stories_have_ended_does_not_wait_for_the_next_look(monkeypatch):
    monkeypatch.setattr(lane, "LOOK_SECONDS", 100.0)

    async def check() -> None:
        done: list[str] = []
        writing = Writing(0.0)
        found = Lane(writing)
        found.add("k", doing(done, "a"))
        found.add("k", doing(done, "b"))
        await rounds()
        assert done == ["a"]
        writing.seconds = None
        found.add("other", doing(done, "c"))
        await rounds()
        assert done == ["a", "b", "c"]

    run(check())
