"""Steps of a grid on a cluster, which is played here: dependencies, steps lost with their node, failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discodvt.errors import WorkFailed
from discodvt.executors import Place
from discodvt.experiments import grid_cluster
from discodvt.experiments.grid_plan import Plan, Step
from discodvt.experiments.grid_run import GridRun


class FakeCluster:
    """Runs tasks when it is asked for what is finished; `lost` gives how often a step goes with its node."""

    lost: dict[str, int] = {}  # noqa: RUF012
    begun: list[str] = []  # noqa: RUF012
    refusal: Exception | None = None

    def __init__(self, address: str | None, *, workers: int | None, resources: dict[str, float]) -> None:
        assert (address, workers, resources) == ("host:1", None, {"gpus": 1.0})
        self.waiting: list[tuple[int, Callable[[], Any]]] = []

    def start(self, ticket: int, task: Any) -> None:
        self.waiting.append((ticket, task))
        self.begun.append(task.args[0][0])

    def finished(self, seconds: float | None = None) -> list[tuple[int, Any]]:
        if not self.waiting:
            return []
        ticket, task = self.waiting.pop(0)
        name = task.args[0][0]
        if self.lost.get(name, 0):
            self.lost[name] -= 1
            return [(ticket, OSError("the node is gone"))]
        return [(ticket, self.refusal or task())]

    def close(self) -> None:
        self.waiting.clear()


def run_step(command: tuple[str, ...], log: str, threads: int) -> int:
    """In place of a process on a node: a step named `bad` fails, others leave their output."""
    Path(log).write_text(f"discodvt: {command[0]} was at work\n")
    if command[0] != "bad":
        Path(command[1]).write_text("made")
    return int(command[0] == "bad")


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GridRun:
    def step(name: str, *after: Step) -> Step:
        return Step("prompts", name, tmp_path / name, (name, str(tmp_path / name)), after)

    first, bad = step("first"), step("bad")
    monkeypatch.setattr(grid_cluster, "RayCluster", FakeCluster)
    monkeypatch.setattr(grid_cluster, "run_on_node", run_step)
    monkeypatch.setattr(FakeCluster, "lost", {})
    monkeypatch.setattr(FakeCluster, "begun", [])
    plan: Any = Plan(None, tmp_path, (first, bad, step("second", first), step("third", bad)), ())  # type: ignore[arg-type]
    return GridRun(plan, jobs=2, place=Place("ray:host:1", None, "gpus=1"))


def told(work: GridRun) -> list[tuple[str, str, str]]:
    return [(each.state, each.step.name, each.message) for each in work.run() if each.step is not None]


def test_steps_are_tasks_and_a_failed_one_is_named(work: GridRun) -> None:
    found = told(work)
    assert (
        found.index(("done", "first", "")) < found.index(("start", "second", "")) < found.index(("done", "second", ""))
    )
    assert ("failed", "bad", "bad was at work") in found
    assert ("left out", "third", "needs bad, which failed") in found
    assert sorted(FakeCluster.begun) == ["bad", "first", "second"]


def test_a_step_lost_with_its_node_is_started_again_three_times_at_most(work: GridRun) -> None:
    FakeCluster.lost = {"first": 2, "bad": 5}
    found = told(work)
    assert ("done", "second", "") in found
    assert ("failed", "bad", "lost 3 times (OSError)") in found
    assert (FakeCluster.begun.count("first"), FakeCluster.begun.count("bad")) == (3, 3)


def test_what_is_wrong_with_every_node_ends_the_grid(work: GridRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeCluster, "refusal", WorkFailed("Ray node a: torch 1 there, 2 here"))
    with pytest.raises(WorkFailed, match="torch 1 there"):
        told(work)
