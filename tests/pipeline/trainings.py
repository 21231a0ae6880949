"""Trainings in processes of their own: killed and resumed, or two that know of each other; and what they leave."""

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from discodvt.stored_weights import weight_files
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


def in_two(work: Callable[[], object]) -> list[int]:
    """Run `work` in two processes that know of each other; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def rank(number: int) -> None:
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        work()
        torch.distributed.destroy_process_group()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda number: in_child(lambda: rank(number)), (0, 1)))


def train_until(step: int, recipe: Recipe, out: Path) -> None:
    """Train until this process kills itself, and with it the run."""
    for event in train(recipe, out):
        if event.kind == "step" and event.step == step:
            os.kill(os.getpid(), signal.SIGKILL)


def assert_resumed_equals_whole(recipe: Callable[[], Recipe], directory: Path, *, has: str) -> None:
    """SIGKILL between checkpoints, after the best one was rewritten, then `--resume`: every byte is the same."""
    killed, whole = directory / "killed", directory / "whole"
    assert in_child(lambda: train_until(5, recipe(), killed)) == -signal.SIGKILL
    assert not (killed / "manifest.json").exists()
    assert in_child(lambda: list(train(recipe(), killed, resume=True))) == 0
    assert in_child(lambda: list(train(recipe(), whole))) == 0
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    assert Path(LAST, has) in files
    for file in files:
        assert (killed / file).read_bytes() == (whole / file).read_bytes(), file


def assert_two_equal_one(recipe: Callable[[], Recipe], directory: Path) -> None:
    """The same global batch in two processes: the same weights to 1e-5 (no dropout)."""
    assert in_child(lambda: list(train(recipe(), directory / "one"))) == 0
    assert in_two(lambda: list(train(recipe(), directory / "two"))) == [0, 0]
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
