"""The `discodvt` program as a user meets it, in this process or in one to be killed; a new one imports for seconds."""

import gc
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest

from discodvt import remote_lock
from discodvt.cli import main

Run = Callable[..., CompletedProcess[str]]


def run(*words: object, given: bytes = b"", encoding: str = "utf-8") -> CompletedProcess[str]:
    """Exit code, standard output and standard error of `discodvt WORDS`, in a terminal of this encoding."""
    command = ["discodvt", *map(str, words)]
    streams = [TextIOWrapper(BytesIO(), encoding=encoding, write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        patch.setattr(sys, "argv", command)
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(given), encoding=encoding))
        with pytest.raises(SystemExit) as stop:
            main()
    out, err = (stream.buffer.getvalue().decode(stream.encoding) for stream in streams)
    return CompletedProcess(command, stop.value.code if isinstance(stop.value.code, int) else 0, out, err)


def refused(result: CompletedProcess[str], *words: str, code: int = 2) -> str:
    """The one line of a wrong request, which has all `words`."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("discodvt: ")
    assert [word for word in words if word not in line] == []
    return line


def start_server() -> None:
    """The server that `discodvt grid` forks its steps from, itself a fork of this process, which has all libraries.

    So it has nothing of what tests leave: threads, connections, locks.
    """
    from discodvt.experiments.grid_run import _context

    def fork(path: bytes, arguments: list[str], kept: list[int]) -> int:
        child = os.fork()
        if child == 0:
            util.spawnv_passfds = spawn
            sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # not what pytest captures with
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (int(path.name) for path in [*Path("/proc/self/fd").iterdir()]):
                if number > 2 and number not in (*kept, nothing):  # left open, it would keep the server for ever;
                    os.dup2(nothing, number, inheritable=False)  # free, it would be a file into which old logs write
            gc.freeze()  # what all its forks have is garbage in none
            try:
                exec(arguments[-1], {})
            finally:
                os._exit(0)
        return child

    if sys.platform != "linux":
        return
    resource_tracker.ensure_running()
    spawn = util.spawnv_passfds
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pytest-xdist has threads, which the fork does without
        patch.setattr(util, "spawnv_passfds", fork)
        _context()  # says what is to be loaded
        forkserver.ensure_running()


def stay(parent: int) -> None:
    """How a worker of that server begins: its parent is not who started the run."""


class Started:
    """`discodvt WORDS` in a process of its own, forked from the server of `discodvt grid`, which has all libraries.

    Locks in a store are as quick to be taken for dead as in this process. It may be killed after a step of a training,
    or after so many shards of a corpus.
    """

    def __init__(self, log: Path, *words: object, kill_at: int | None = None, **environment: str) -> None:
        from discodvt.experiments.grid_run import _context

        self.log = log
        locks = {name: value for name, value in vars(remote_lock).items() if name.startswith("SECONDS_")}
        given = (tuple(map(str, words)), log, dict(os.environ) | environment, locks, kill_at)
        self.process: BaseProcess = _context().Process(target=_work, args=given)
        self.process.start()

    def kill_when(self, ready: Callable[[], object]) -> None:
        """SIGKILL as soon as something is there; what the program had started ends by itself."""
        until = time.monotonic() + 600
        while not ready():
            assert self.process.is_alive(), self.log.read_text()
            assert time.monotonic() < until
            time.sleep(0.1)
        started = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        assert self.end() == -signal.SIGKILL
        assert psutil.wait_procs(started, timeout=60)[1] == []

    def end(self) -> int | None:
        """The exit code, or minus the signal that ended it."""
        self.process.join(900)
        return self.process.exitcode


def _work(
    words: tuple[str, ...], log: Path, environment: dict[str, str], locks: dict[str, float], kill_at: int | None
) -> None:
    from discodvt.corpus import split_shards
    from discodvt.experiments import grid_run
    from discodvt.training import run as training

    os.environ |= environment
    vars(remote_lock).update(locks)
    grid_run._context = lambda: multiprocessing.get_context("fork")  # of steps: there is nothing left to import
    train, run_shards = training.train, split_shards.run_shards

    def until_killed(*given: Any, **named: Any) -> Iterator[Any]:
        for event in train(*given, **named):
            if event.kind == "step" and event.step == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield event

    def shards_until_killed(*given: Any, **named: Any) -> Iterator[Any]:
        for number, result in enumerate(run_shards(*given, **named)):
            if number == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            yield result

    training.train, split_shards.run_shards = until_killed, shards_until_killed
    training.plot = lambda directory: directory  # takes longer than a training of a test
    grid_run.run_command(words, log, threads=1)
