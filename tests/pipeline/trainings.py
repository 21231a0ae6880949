"""Trainings in processes of their own: killed and resumed, or two that know of each other; and what they leave."""

import json
import os
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from discodvt.experiments.grid_run import _context
from discodvt.stored_weights import weight_files
from discodvt.training import run as training
from discodvt.training.assembly import Recipe
from discodvt.training.run import train

SHORT = ("run.steps=7", "run.save_every_steps=2", "run.log_every_steps=3", "validation.every_steps=3",
         "validation.select_by=loss", "data.max_valid_stories=8", "run.tensorboard=false")  # fmt: skip
LAST = "last-0000007"


def lines(directory: Path, kind: str) -> list[dict[str, float]]:
    """The journal of a run: of its steps (`train`) or validations (`valid`)."""
    journal = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [line for line in journal if line["kind"] == kind]


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked process; its exit status, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        AcceleratorState._reset_state(reset_partial_state=True)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


class Pair:
    """Two processes that know of each other, and stay for the next training.

    To load libraries and to find out how each operation is done on shards takes longer than a training of a test.
    """

    def __init__(self) -> None:
        self._ranks: list[tuple[BaseProcess, Connection]] = []

    def train(self, recipe: Recipe, out: Path, *, resume: bool = False) -> None:
        """Train in both; where one fails, both end."""
        waiting = self._ask(recipe, out, resume, None)
        try:
            while waiting:
                for connection in wait(waiting):
                    failure = connection.recv()
                    assert failure is None, failure
                    waiting.remove(connection)
        except BaseException:
            self.end()
            raise

    def train_until(self, step: int, recipe: Recipe, out: Path, *, resume: bool = False) -> None:
        """Train until the first kills itself, with which the other cannot go on."""
        first, _ = self._ask(recipe, out, resume, step)
        try:
            with pytest.raises(EOFError):
                pytest.fail(first.recv())
        finally:
            self.end()

    def end(self) -> None:
        """Both end; the next training is done by others."""
        for process, connection in self._ranks:
            process.kill()
            process.join()
            connection.close()
        self._ranks = []

    def _ask(self, *given: object) -> list[Connection]:
        self._ranks = self._ranks or self._start()
        asked = [connection for _, connection in self._ranks]
        for connection in asked:
            connection.send(given)
        return asked

    def _start(self) -> list[tuple[BaseProcess, Connection]]:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ranks = []
        for rank in (0, 1):
            ours, theirs = _context().Pipe()
            process = _context().Process(target=_serve, args=(rank, port, theirs), daemon=True)
            process.start()
            theirs.close()
            ranks.append((process, ours))
        return ranks


def _serve(rank: int, port: int, asked: Connection) -> None:
    """One of the two processes, until nobody asks any more."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    training.plot = lambda directory: directory  # takes longer than the training
    while True:
        recipe, out, resume, kill_at = asked.recv()
        AcceleratorState._reset_state(reset_partial_state=True)
        try:
            train_until(kill_at, recipe, out, resume=resume)
        except BaseException:
            asked.send(traceback.format_exc())
        else:
            asked.send(None)


def held_at_the_end(recipes: list[Recipe], out: Path) -> list[int]:
    """Memory in kB that one process holds at the last step of each, one after the other; of the server of `program`,
    which has nothing of what tests leave."""
    ours, theirs = _context().Pipe()
    process = _context().Process(target=_tell_held, args=(recipes, out, theirs), daemon=True)
    process.start()
    theirs.close()
    held = [ours.recv() for _ in recipes]
    process.join()
    return held


def _tell_held(recipes: list[Recipe], out: Path, told: Connection) -> None:
    torch.set_num_threads(1)
    for recipe in recipes:
        for event in train(recipe, out, overwrite=True):
            if event.kind == "step" and event.step == event.total:
                status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
                told.send(int(status["RssAnon"].split()[0]))
                break


def train_until(step: int | None, recipe: Recipe, out: Path, *, resume: bool = False) -> None:
    """Train until this process kills itself, and with it the run."""
    for event in train(recipe, out, resume=resume):
        if event.kind == "step" and event.step == step:
            os.kill(os.getpid(), signal.SIGKILL)


def assert_resumed_equals_whole(recipe: Callable[[], Recipe], directory: Path, *, has: str) -> None:
    """SIGKILL between checkpoints, after the best one was rewritten, then `--resume`: every byte is the same."""
    killed, whole = directory / "killed", directory / "whole"
    assert in_child(lambda: train_until(5, recipe(), killed)) == -signal.SIGKILL
    assert not (killed / "manifest.json").exists()
    list(train(recipe(), killed, resume=True))
    list(train(recipe(), whole))
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert Path(LAST, has) in files
    for file in files:
        assert (killed / file).read_bytes() == (whole / file).read_bytes(), file


def assert_two_equal_one(pair: Pair, recipe: Recipe, directory: Path) -> None:
    """The same global batch in two processes: the same weights to 1e-5 (no dropout)."""
    list(train(recipe, directory / "one"))
    pair.train(recipe, directory / "two")
    assert_same(directory / "one", directory / "two", model=LAST, within=1e-5)


def assert_same(one: Path, other: Path, *, model: str = "", within: float) -> None:
    """A model that two runs left, the figures of their validations, and the size of their gradients, of which Adam
    would make the same if all were too small."""
    ours, theirs = (load_file(weight_files(directory / model)[0]) for directory in (one, other))
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if not name.endswith("k_proj.bias"):  # softmax cancels it: its gradient is rounding, which Adam blows up
            torch.testing.assert_close(theirs[name], weight, atol=within, rtol=within, msg=name)
    for first, second in zip(lines(one, "valid"), lines(other, "valid"), strict=True):
        assert first == pytest.approx(second, abs=within)
    norms, others = ([line["gradient_norm"] for line in lines(run, "train")] for run in (one, other))
    assert norms == pytest.approx(others, rel=1e-3)
