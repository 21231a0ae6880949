"""Grids and searches whose directory is in a store: killed, gone on with elsewhere, and the results of a local one."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pipeline.test_annotate import contents
from pipeline.test_storage import Store, held, place, store  # noqa: F401 - fixtures
from pipeline.toy_corpus import write_corpus
from program import refused, run

from discodvt import remote_lock
from discodvt.mirrored import INDEX
from discodvt.storage import RemotePath
from discodvt.training import run as training

SHORT = (
    '"run.steps" = 2, "validation.every_steps" = 1, "run.save_every_steps" = 1, "run.tensorboard" = false, '
    '"batch.stories_per_step" = 4, "batch.stories_per_micro_batch" = 4'
)
GRID = """
seeds = [1]
[corpora.toy]
corpus = "CORPUS"
prompts = 4
[evaluation]
resamples = 20
discourse = false
codes = false
[stages.pretrain]
recipe = "tiny/pretrain"
seed = 42
set = { SETTINGS }
[stages.seq2seq]
recipe = "tiny/seq2seq"
set = { SETTINGS }
[systems.BART]
stages = ["pretrain", "seq2seq"]
"""
SPACE = "[optimizer]\nlearning_rate = [1e-4, 3e-4, 1e-3]\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(remote_lock, "SECONDS_UNTIL_DEAD", 4.0)  # a live lock changes every three
    monkeypatch.setattr(training, "plot", lambda directory: directory)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def start(*words: object, cache: Path) -> "subprocess.Popen[str]":
    """The program in a process of its own, on a machine whose cache is there."""
    command = [sys.executable, "-m", "discodvt", *map(str, words)]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def kill_when(process: "subprocess.Popen[str]", target: RemotePath, names: str) -> None:
    """Kill a run when its state in the store has a file of such a name."""
    until = time.monotonic() + 600
    while not (INDEX in held(target) and any(names in name for name in json.loads(held(target)[INDEX])["files"])):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_grid_killed_after_a_step_goes_on_on_another_machine(
    place: RemotePath,  # noqa: F811
    store: Store,  # noqa: F811
    tmp_path: Path,
) -> None:
    corpus = write_corpus(tmp_path / "corpus", train=24, valid=8)
    (corpus / "test.parquet").write_bytes((corpus / "valid.parquet").read_bytes())
    there = store.put_all(corpus, f"{place.name}/corpus")
    for name, source in (("here", corpus), ("there", there)):
        text = GRID.replace("CORPUS", str(source)).replace("SETTINGS", SHORT)
        (tmp_path / f"{name}.toml").write_text(text)
    local = start("grid", tmp_path / "here.toml", "--out", tmp_path / "here", cache=tmp_path / "cache")
    _, said = local.communicate(timeout=900)
    assert local.returncode == 0, said
    target = place / "grid"
    words = ("grid", tmp_path / "there.toml", "--out", target)
    kill_when(start(*words, cache=tmp_path / "one"), target, "train/toy/pretrain")
    files = held(target)
    assert not any("seq2seq" in name for name in files if name.startswith("train/"))  # what is unfinished stays there
    again = start(*words, cache=tmp_path / "two")
    _, said = again.communicate(timeout=900)
    assert again.returncode == 0, said
    assert "pretrain-1: done" not in said  # it was brought here
    assert "generate BART-1: done" in said
    files = held(target)
    tables = [name for name in contents(tmp_path / "here") if "/tables/" in name]
    assert tables
    for name in tables:
        assert files[name] == contents(tmp_path / "here")[name], name
    assert not list((tmp_path / "two").rglob("*.safetensors"))  # nothing stays on a machine
    refused(run(*words, "--on", "ray"), f"{target}: steps on nodes write into one directory")


def test_a_search_killed_in_a_trial_goes_on_on_another_machine(
    place: RemotePath,  # noqa: F811
    store: Store,  # noqa: F811
    tmp_path: Path,
) -> None:
    corpus = write_corpus(tmp_path / "corpus", train=16, valid=4)
    (tmp_path / "space.toml").write_text(SPACE)
    values = (
        f"data.corpus={corpus}", "run.steps=4", "validation.every_steps=2", "run.save_every_steps=2",
        "model.shape.width=8", "model.shape.ffn_width=8", "data.story_tokens=16", "run.tensorboard=false",
    )  # fmt: skip
    settings = [word for value in values for word in ("--set", value)]
    words = ("search", "tiny/pretrain", "--space", tmp_path / "space.toml", "--trials", 3, "--no-pruning", *settings)
    assert run(*words, "--out", tmp_path / "here").returncode == 0
    target = place / "search"
    kill_when(start(*words, "--out", target, cache=tmp_path / "one"), target, "trials/0001/last-")
    done = run(*words, "--out", target)  # with another cache
    assert done.returncode == 0, done.stderr
    assert "trial 0: " not in done.stderr
    files, here = held(target), contents(tmp_path / "here")
    for name in ("trials.csv", "search.json"):
        assert files[name] == here[name], name
    assert f'out = "{target}/best"' in files["best.toml"].decode()
    with remote_lock.held(target / ".lock", "it"):
        refused(run(*words, "--out", target), f"{target}: in use by another run")
