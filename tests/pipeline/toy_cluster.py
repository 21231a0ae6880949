"""A Ray cluster of this machine, drivers for it, and what their tasks do on its nodes, which import this module.

Nodes and drivers are forked from the server of `program`, which has all libraries: Ray's own commands import for
seconds too.
"""

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil

from discodvt.executors import Place, open_executor, run_shards
from discodvt.executors.ray_cluster import RayCluster

LIMITS = (
    "--object-store-memory",
    str(80 << 20),
    "--dashboard-agent-listen-port",
    "0",
    "--disable-usage-stats",
    "--block",
)


def _free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


class Forked:
    """A function in a process of its own, with what it writes to standard output and to standard error."""

    def __init__(self, folder: Path, work: Callable[..., object], *given: object, **environment: str) -> None:
        from discodvt.experiments.grid_run import _context

        folder.mkdir(exist_ok=True)
        self.output, self.error = (folder / f"{time.monotonic_ns()}.{name}" for name in ("out", "err"))
        words = (partial(work, *given), dict(os.environ) | environment, self.output, self.error)
        self.process: Any = _context().Process(target=_begin, args=words)
        self.process.start()

    def ended(self) -> CompletedProcess[str]:
        self.process.join(400)
        code = self.process.exitcode
        assert code is not None, self.error.read_text()
        return CompletedProcess([], code, self.output.read_text(), self.error.read_text())


def _begin(work: Callable[[], object], environment: Mapping[str, str], output: Path, error: Path) -> None:
    os.environ.clear()
    os.environ |= environment
    for path, stream in ((output, sys.stdout), (error, sys.stderr)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    work()


class Cluster:
    """`ray start` for a head without CPUs and for nodes with one CPU each."""

    def __init__(self, place: str) -> None:
        self.place = Path(place)
        self.nodes: list[Forked] = []
        port, client_port = _free_port(), _free_port()  # Ray's own are the same for every cluster of a machine
        self.address = f"127.0.0.1:{port}"
        head = ("--head", "--port", port, "--ray-client-server-port", client_port, "--num-cpus", "0", "--no-monitor")
        self._start(*head, "--include-dashboard", "false", "--temp-dir", place)

    def add(self, **environment: str) -> None:
        """A node; the head reads the logs of all on this machine."""
        joins = ("--address", self.address, "--num-cpus", "1", "--include-log-monitor", "false")
        self._start(*joins, **environment)

    def kill_node(self) -> None:
        """The last node, with all its processes, without a word."""
        node = self.nodes.pop().process
        for process in (*psutil.Process(node.pid).children(recursive=True), psutil.Process(node.pid)):
            process.kill()
        node.join()

    def stop(self) -> None:
        while self.nodes:
            self.kill_node()
        shutil.rmtree(self.place, ignore_errors=True)

    def _start(self, *options: str, **environment: str) -> None:
        """Until it says that it runs; Ray gives up after 30 seconds on a busy machine: it is tried again."""
        for _ in range(6):
            node = Forked(self.place / "started", _start_node, *options, *LIMITS, **environment)
            self.nodes.append(node)
            while node.process.is_alive():
                if node.output.exists() and "Ray runtime started" in node.output.read_text():
                    return
                time.sleep(0.1)
            self.nodes.pop()
        raise AssertionError(node.ended())


def _start_node(*options: str) -> None:
    from ray.scripts.scripts import start

    start.main(options)


class Gate:
    """Where the tasks of a driver sign when they begin; all but the first of them wait there until it is opened."""

    def __init__(self, folder: Path, passing: int) -> None:
        self._opened, self._book, self._passing = folder / "opened", folder / "signed", passing
        folder.mkdir()
        self._book.touch()

    @property
    def signed(self) -> int:
        return self._book.read_text().count("\n")

    def open(self) -> None:
        self._opened.touch()

    def through(self, number: int, task: Callable[[], Any]) -> Any:
        with self._book.open("a") as file:
            file.write(f"{number}\n")
        while number >= self._passing and not self._opened.exists():
            time.sleep(0.05)
        return task()


def drive(gate: Gate | None, *words: str) -> None:
    """`discodvt WORDS`, whose tasks go through a gate."""
    from discodvt.cli import main

    start, numbers = RayCluster.start, count()

    def start_at_gate(self: RayCluster, ticket: int, task: Callable[[], Any]) -> None:
        start(self, ticket, task if gate is None else partial(gate.through, next(numbers), task))

    RayCluster.start = start_at_gate  # type: ignore[method-assign]
    sys.argv = ["discodvt", *words]
    main()


def square(number: int) -> int:
    if number == 3:
        raise ValueError("bad luck")
    return number * number


def tell(number: int) -> str:
    """How a task runs, and when."""
    begin = time.time()
    time.sleep(0.1)
    told = {"nice": os.nice(0), "preload": os.environ.get("LD_PRELOAD"), "begin": begin, "end": time.time()}
    return json.dumps(told)


def run_each(work: Callable[[int], object], place: Place, numbers: range) -> None:
    with open_executor(place) as executor:
        for number, result in run_shards(executor, work, numbers, name="<{}>".format):
            print(number, result, flush=True)


def run_grid(place: Place, corpus: Path, out: Path) -> None:
    """`made` is there already, `missing` fails."""
    from discodvt.experiments.grid_run import GridRun
    from discodvt.experiments.grid_steps import Plan, Step

    def step(name: str, source: Path, *after: Step) -> Step:
        target = out / name / "prompts.parquet"
        return Step("prompts", name, target, ("prompts", str(source), "3", str(target)), after)

    made, first, missing = step("made", corpus), step("first", corpus), step("missing", out / "none")
    steps = (made, first, missing, step("second", corpus, made, first), step("third", corpus, missing))
    for event in GridRun(Plan(None, out, steps, ()), jobs=2, place=place).run():  # type: ignore[arg-type]
        if event.step is not None:
            print(event.state, event.step.name, event.message, flush=True)
