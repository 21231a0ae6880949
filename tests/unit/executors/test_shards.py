"""Shards here or in processes: each once, again when a worker is lost; a poisonous one is named, the rest goes on."""

import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from discodvt.errors import BadRequest, WorkFailed
from discodvt.executors import Executor, Place, open_executor, run_shards
from discodvt.executors.shards import parse_resources


def square(number: int) -> int:
    return number * number


def refuse(number: int) -> int:
    raise BadRequest("`parser` nope: unknown", parameter="parser")


def stumble(place: Path, how: str, number: int) -> int:
    """Shard 3 fails: `once`, or every time; by an error, or with its process."""
    with (place / f"tries-{number}").open("a") as tries:
        tries.write("x")
    if number == 3 and ("always" in how or (place / "tries-3").read_text() == "x"):
        if "die" in how:
            os._exit(9)
        raise ValueError("a line\nthat is long")
    return number * number


def tries(place: Path) -> dict[int, int]:
    return {number: len((place / f"tries-{number}").read_text()) for number in range(8)}


@pytest.fixture(params=[1, 2], ids=["this process", "processes"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    with open_executor(Place(workers=request.param)) as opened:
        yield opened


def test_every_shard_has_its_result_once(executor: Executor) -> None:
    found = list(run_shards(executor, square, range(9), name=str))
    assert sorted(found) == [(number, number * number) for number in range(9)]


def test_shards_are_taken_as_there_is_room(executor: Executor) -> None:
    taken = []
    endless = (taken.append(number) or number for number in iter(int, 1))  # type: ignore[func-returns-value]
    next(run_shards(executor, square, endless, name=str))
    assert len(taken) <= 2


def test_a_failed_shard_is_run_again(executor: Executor, tmp_path: Path) -> None:
    found = dict(run_shards(executor, partial(stumble, tmp_path, "once"), range(8), name=str))
    assert found == {number: number * number for number in range(8)}
    assert tries(tmp_path) == dict.fromkeys(range(8), 1) | {3: 2}


def test_a_poisonous_shard_is_named_and_the_rest_goes_on(executor: Executor, tmp_path: Path) -> None:
    found: list[int] = []
    shards = run_shards(executor, partial(stumble, tmp_path, "always"), range(8), name="<{}>".format)
    with pytest.raises(WorkFailed, match=r"^1 shard failed 3 times: <3> \(ValueError: that is long\)\. The rest is"):
        found.extend(shard for shard, _ in shards)
    assert sorted(found) == [0, 1, 2, 4, 5, 6, 7]
    assert tries(tmp_path) == dict.fromkeys(range(8), 1) | {3: 3}


def test_a_process_that_dies_costs_only_its_own_shard(tmp_path: Path) -> None:
    with open_executor(Place(workers=2)) as executor:
        found = dict(run_shards(executor, partial(stumble, tmp_path, "once die"), range(8), name=str))
    assert found == {number: number * number for number in range(8)}
    assert tries(tmp_path) == dict.fromkeys(range(8), 1) | {3: 2}


def test_a_shard_that_kills_every_process_is_named(tmp_path: Path) -> None:
    with open_executor(Place(workers=2)) as executor:
        shards = run_shards(executor, partial(stumble, tmp_path, "always die"), range(8), name=str)
        with pytest.raises(WorkFailed, match=r"3 \(LostWorker: its worker process died"):
            list(shards)
    assert tries(tmp_path) == dict.fromkeys(range(8), 1) | {3: 3}


def test_a_wrong_request_ends_the_run_at_once(executor: Executor) -> None:
    with pytest.raises(BadRequest, match="nope") as error:
        list(run_shards(executor, refuse, range(8), name=str))
    assert error.value.parameters == ("parser",)


def test_places_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (
        ({"on": "cloud"}, "`on` 'cloud': expected local, ray or ray:ADDRESS"),
        ({"on": "local:1"}, "`on` 'local:1'"),
        ({"workers": 0}, "`workers` 0"),
        ({"resources": "gpus=1"}, "for tasks of a Ray cluster"),
    ):
        with pytest.raises(BadRequest, match=message):
            Place(**options)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadRequest, match=r"not installed; pip install 'discodvt\[ray\]'"), open_executor(Place("ray")):
        pass


@pytest.mark.parametrize(
    ("address", "message"), [("nonsense", "expected ray:HOST:PORT"), ("127.0.0.1:1", "no Ray cluster answers there")]
)
def test_addresses_without_a_cluster(address: str, message: str) -> None:
    pytest.importorskip("ray", reason="needs the extra `ray`")
    with pytest.raises(BadRequest, match=message), open_executor(Place(f"ray:{address}")):
        pass


def test_resources_of_a_task() -> None:
    assert parse_resources("cpus=2, gpus=0.5,memory=2GB,tpu=1") == {"cpus": 2, "gpus": 0.5, "memory": 2e9, "tpu": 1}
    assert parse_resources("") == {}
    for wrong in ("cpus", "cpus=two", "cpus=2GB", "memory=-1"):
        with pytest.raises(BadRequest, match="expected such as cpus=1"):
            parse_resources(wrong)
