"""Which Ray cluster is joined, what one that is started for a run is given, and how many tasks are under way."""

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from discodvt.errors import BadRequest
from discodvt.executors.ray_cluster import RayCluster

NAMES = {"RAY_worker_niceness", "RAY_enable_metrics_collection", "RAY_task_events_report_interval_ms"}


class FakeRay(ModuleType):
    """`ray` with a cluster of `running` cores, or none; of a cluster it starts it keeps the settings."""

    def __init__(self, running: int | None = None) -> None:
        super().__init__("ray")
        self.cores, self.started_with, self.error = running, set[str](), None
        self.joined: list[str | None] = []
        self._private = SimpleNamespace(worker=SimpleNamespace(print_to_stdstream=lambda told, **_: print(told)))

    def init(self, address: str | None = None, **given: Any) -> None:
        if self.error is not None:
            raise self.error
        if address is None and self.cores is None:
            self.started_with = {name for name in NAMES if name in os.environ}
            self.cores = given["num_cpus"] or 64
            return
        if given.get("num_cpus") is not None or given.get("resources") is not None:
            raise ValueError("When connecting to an existing cluster, resources must not be provided.")
        assert given.keys() == {"log_to_driver", "logging_level"}
        assert not [name for name in NAMES if name in os.environ]
        self.joined.append(address)

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(self.cores or 0)}}]

    def remote(self, **options: Any) -> Any:
        return lambda function: function

    def shutdown(self) -> None:
        self.cores = None


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMES, "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)


def opened(
    monkeypatch: pytest.MonkeyPatch, ray: FakeRay, address: str | None = None, workers: int | None = None, **need: float
) -> RayCluster:
    monkeypatch.setitem(sys.modules, "ray", ray)
    return RayCluster(address, workers=workers, resources=need)


def test_a_cluster_for_the_run_has_our_settings_and_no_more_cores_than_its_workers_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FakeRay()
    assert opened(monkeypatch, ray, workers=2).slots == 4  # two run, two are in line
    assert (ray.cores, ray.started_with, ray.joined) == (2, NAMES, [])
    assert not [name for name in NAMES if name in os.environ]
    for workers, need, cores, slots in ((2, 3.0, 6, 4), (20, 1.0, 8, 16), (1, 0.0, 1, 1), (1, 0.5, 1, 1)):
        ray = FakeRay()
        assert opened(monkeypatch, ray, workers=workers, cpus=need).slots == slots, (workers, need)
        assert ray.cores == cores
    monkeypatch.setenv("RAY_worker_niceness", "5")  # the user's
    ray = FakeRay()
    assert opened(monkeypatch, ray).slots == 128  # all Ray finds
    assert {**os.environ}["RAY_worker_niceness"] == "5"


@pytest.mark.parametrize(("address", "named"), [(None, ""), ("auto", ""), (None, "host:1")])
def test_a_cluster_that_runs_is_joined_as_it_is(
    monkeypatch: pytest.MonkeyPatch, address: str | None, named: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", named)
    ray = FakeRay(running=3)
    assert opened(monkeypatch, ray, address, workers=5).slots == 5  # it may grow: none in line
    assert opened(monkeypatch, ray, address).slots == 6
    assert ray.joined == [address] * 2
    assert not ray.started_with


def test_what_keeps_a_cluster_from_starting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = FakeRay()
    ray.error = Exception("The current node timed out during startup.\nSee the logs")  # Ray raises it like this
    with pytest.raises(
        BadRequest, match=r"cannot join or start a cluster \(The current node timed out during startup.\)"
    ):
        opened(monkeypatch, ray)


def test_what_ray_tells_of_lost_nodes_is_kept_off_the_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    RayCluster(None, workers=1, resources={})
    ray._private.worker.print_to_stdstream({"lines": ["a node is dead"]}, ignore_prefix=False)
    assert capsys.readouterr().out == ""


def test_the_installed_ray_tells_it_by_that_name() -> None:
    worker = pytest.importorskip("ray._private.worker")
    assert "print_to_stdstream" in worker.listen_error_messages.__code__.co_names
