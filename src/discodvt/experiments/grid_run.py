"""Running a plan: a process for each step, several at a time; what is finished is skipped, what was killed resumes.

Each step is `discodvt` itself, started from a server that has loaded the heavy libraries once (`forkserver`; elsewhere
a new process). Its output goes to `logs/`. A step dies with the grid that started it, so nothing is at work unseen. A
step that fails is named with its last line; what needs it is left out, all the rest goes on. `times.json` keeps how
long each step took, by the clock and in CPU seconds: the clock counts what else the machine was doing. On a Ray cluster
steps are tasks instead (`discodvt.experiments.grid_cluster`).
"""

import json
import multiprocessing
import os
import runpy
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

from filelock import FileLock, Timeout

from discodvt.artefacts import LOCK, MANIFEST, REQUEST
from discodvt.errors import BadRequest, WorkFailed
from discodvt.executors import Place
from discodvt.experiments.grid_cluster import ClusterSteps
from discodvt.experiments.grid_steps import Plan, Step
from discodvt.resumable import read_json, replacing, write_json
from discodvt.storage import locate, open_for_arrow

LOGS = "logs"
TIMES = "times.json"
CPU = ".cpu"  # beside a log, until the step has ended: its CPU seconds
POLL_SECONDS = 0.5
PRELOADED = [  # by the server that steps are forked from; Arrow imports pandas with the first table, where it is
    "torch", "transformers", "accelerate", "spacy", "pyarrow.parquet", "pandas", "matplotlib.figure", "scipy.stats",
    "discodvt.experiments.grid_run", "discodvt.training.run", "discodvt.training.recipes",
    "discodvt.evaluation.codes.study", "discodvt.evaluation.codes.measure",
    "discodvt.evaluation.discourse.fit_stage", "discodvt.evaluation.discourse.score_stage",
    "discodvt.evaluation.evaluate_files", "discodvt.writing.writer", "discodvt.discourse.annotate_corpus",
]  # fmt: skip

State = Literal["start", "tick", "done", "failed", "left out"]


class GridEvent(NamedTuple):
    """What happens to a step, and how long it took."""

    state: State
    step: Step | None  # None of a tick
    seconds: float = 0.0
    message: str = ""


@dataclass
class _Running:
    step: Step
    process: Any
    started: float


@dataclass
class GridRun:
    """A plan at work; `failed` and `left_out` are there when `run` has ended."""

    plan: Plan
    jobs: int = 1
    place: Place = field(default_factory=Place)
    failed: dict[Step, str] = field(default_factory=dict)
    left_out: dict[Step, Step] = field(default_factory=dict)  # and the failed step it needs
    _cluster: ClusterSteps | None = None

    def run(self) -> Iterator[GridEvent]:
        """Work until nothing is left that can be done."""
        (self.plan.out / LOGS).mkdir(parents=True, exist_ok=True)
        waiting = [step for step in self.plan.steps if not step.done]
        for step in self.plan.steps:
            if step not in waiting:
                _forget_optimizer(step)  # of a grid that was killed before it came to that
        running: list[_Running] = []
        cluster = self._cluster = None if self.place.on == "local" else ClusterSteps(self.place)
        try:
            while waiting or running:
                for step in [step for step in waiting if self._cause(step)]:
                    waiting.remove(step)
                    yield GridEvent("left out", step, message=f"needs {self.left_out[step].name}, which failed")
                ready = [step for step in waiting if all(before.done for before in step.after)]
                for step in ready[: self.jobs - len(running)]:
                    waiting.remove(step)
                    running.append(self._start(step))
                    yield GridEvent("start", step)
                if not running:
                    if waiting and not any(self._cause(step) for step in waiting):
                        raise WorkFailed(f"{waiting[0].name}: what it is made from has gone; start the grid again")
                    continue
                if cluster is not None:
                    cluster.wait(POLL_SECONDS)
                else:
                    wait([each.process.sentinel for each in running], timeout=POLL_SECONDS)
                ended = [each for each in running if each.process.exitcode is not None]
                for each in ended:
                    running.remove(each)
                    yield self._end(each)
                yield GridEvent("tick", None)
        finally:
            if cluster is not None:
                cluster.close()
            else:
                for each in running:
                    each.process.terminate()
                for each in running:
                    each.process.join()

    def _cause(self, step: Step) -> Step | None:
        """The failed step that this one cannot do without."""
        for before in step.after:
            cause = before if before in self.failed else self.left_out.get(before)
            if cause is not None:
                self.left_out[step] = cause
                return cause
        return None

    def _log(self, step: Step) -> Path:
        name = "-".join(step.output.relative_to(self.plan.out.absolute()).parts)
        return self.plan.out / LOGS / f"{name}.log"

    def _start(self, step: Step) -> _Running:
        threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // self.jobs))
        if self._cluster is not None:
            started = self._cluster.start(step.command, self._log(step), threads)
            return _Running(step, started, time.perf_counter())
        process: Any = _context().Process(
            target=run_command, args=(step.command, self._log(step), threads), daemon=True
        )
        process.start()
        return _Running(step, process, time.perf_counter())

    def _end(self, each: _Running) -> GridEvent:
        seconds, step = time.perf_counter() - each.started, each.step
        if each.process.exitcode == 0 and step.done:
            _forget_optimizer(step)
            log = self._log(step)
            took, cpu = {"seconds": round(seconds, 1)}, log.with_suffix(CPU)
            if cpu.exists():  # else the disk of the step was full
                took |= read_json(cpu)
                cpu.unlink()
            write_json(self.plan.out / TIMES, read_times(self.plan.out) | {log.stem: took})
            return GridEvent("done", step, seconds)
        code = each.process.exitcode
        killed = f"killed by signal {-code}" if code is not None and code < 0 else ""
        lost = getattr(each.process, "reason", "")
        self.failed[step] = killed or lost or last_line(self._log(step)) or f"exit code {code}"
        return GridEvent("failed", step, seconds, self.failed[step])


def _forget_optimizer(step: Step) -> None:
    """Remove the last checkpoint of a finished training: nothing will be resumed, and its best model is kept."""
    if step.kind == "train":
        for last in step.output.glob("last-*"):
            shutil.rmtree(last)


def _context() -> Any:
    """Processes from a server that has loaded what most steps need."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


def run_command(words: tuple[str, ...], log: Path, threads: int) -> None:
    """In a process of its own: `discodvt WORDS`, what it prints goes to a file."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with log.open("ab") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    os.environ |= {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "200"}
    print("$ discodvt", " ".join(words), flush=True)
    try:
        if words[0] == "prompts":
            source, count, target = words[1:]
            write_prompts(locate(source), int(count), Path(target))
            return
        import torch

        torch.set_num_threads(threads)
        sys.argv = ["discodvt", *words]
        sys.modules.pop("discodvt.__main__", None)  # loaded by the server of processes; runpy would warn
        runpy.run_module("discodvt", run_name="__main__", alter_sys=True)
    finally:
        with suppress(OSError):  # a full disk has been named already
            write_json(log.with_suffix(CPU), {"cpu_seconds": round(sum(os.times()[:4]), 1)})  # and of its workers


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def write_prompts(corpus: Path, count: int, target: Path) -> None:
    """The first rows of the test split, which every system writes to."""
    import pyarrow.parquet as pq

    path = corpus / "test.parquet"
    if not path.exists():
        raise BadRequest(f"{corpus}: no test split to write to; prepare it with one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        pq.write_table(pq.read_table(open_for_arrow(path))[:count], partial)


def last_line(log: Path) -> str:
    """What a step said last, without the program's name."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("discodvt: ") for line in reversed(lines) if line.strip()), "")


def read_times(out: Path) -> dict[str, dict[str, float]]:
    """What finished steps took, by the names of their logs."""
    try:
        times: dict[str, dict[str, float]] = json.loads((out / TIMES).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return times


@contextmanager
def locked_grid(out: Path) -> Iterator[None]:
    """One grid at a time in a directory, and none in the output of another stage."""
    if out.exists() and not out.is_dir():
        raise BadRequest(f"{out}: a file is in the way; give a directory for the grid")
    if any((out / name).exists() for name in (MANIFEST, REQUEST)):
        raise BadRequest(f"{out}: holds the output of another stage; choose another directory")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = FileLock(out / LOCK, timeout=0)
        lock.acquire()
    except Timeout:
        raise BadRequest(f"{out}: a grid is at work in it; wait for it, or choose another directory") from None
    except OSError as error:
        raise WorkFailed(f"{out}: {error.strerror}; give a directory that can be written") from None
    try:
        yield
    finally:
        lock.release()
