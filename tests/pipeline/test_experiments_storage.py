"""Grids and searches whose directory is in a store: killed, gone on with elsewhere, and the results of a local one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline.toy_corpus import contents, write_corpus
from pipeline.toy_grid import GRID
from pipeline.toy_store import Store, held
from program import Started, refused, run

from discodvt import remote_lock
from discodvt.mirrored import INDEX
from discodvt.storage import RemotePath

pytestmark = pytest.mark.usefixtures("quick_locks")
SPACE = "[optimizer]\nlearning_rate = [1e-4, 1e-3]\n"


def has(target: RemotePath, names: str) -> Callable[[], bool]:
    """Whether the state of a run in the store has a file of such a name."""
    index = target / INDEX

    def found() -> bool:
        try:
            return index.exists() and any(names in name for name in json.loads(index.read_text())["files"])
        except json.JSONDecodeError:
            return False  # replaced by a longer one between the request for its size and the one for its bytes

    return found


def test_a_grid_killed_after_a_step_goes_on_on_another_machine(
    place: RemotePath,
    store: Store,
    tmp_path: Path,
) -> None:
    corpus = write_corpus(tmp_path / "corpus", train=24, valid=8)
    (corpus / "test.parquet").write_bytes((corpus / "valid.parquet").read_bytes())
    there = store.put_all(corpus, f"{place.name}/corpus")
    for name, source in (("here", corpus), ("there", there)):
        text = GRID.replace('prepare = ["jsonl", "STORIES"]', f'corpus = "{source}"')
        (tmp_path / f"{name}.toml").write_text(text)
    system = ("--only", "BART", "--seed", 1)
    local = Started(tmp_path / "local.log", "grid", tmp_path / "here.toml", "--out", tmp_path / "here", *system)
    assert local.end() == 0, local.log.read_text()
    target = place / "grid"
    words = ("grid", tmp_path / "there.toml", "--out", target, *system)
    killed = Started(tmp_path / "killed.log", *words, XDG_CACHE_HOME=str(tmp_path / "one"))
    killed.kill_when(has(target, "train/toy/pretrain"))
    files = held(target)
    assert not any("seq2seq" in name for name in files if name.startswith("train/"))  # what is unfinished stays there
    again = Started(tmp_path / "again.log", *words, XDG_CACHE_HOME=str(tmp_path / "two"))
    assert again.end() == 0, again.log.read_text()
    said = again.log.read_text()
    assert "pretrain-42: done" not in said  # it was brought here
    assert "generate BART-1: done" in said
    files = held(target)
    tables = [name for name in contents(tmp_path / "here") if "/tables/" in name]
    assert tables
    for name in tables:
        assert files[name] == contents(tmp_path / "here")[name], name
    assert not list((tmp_path / "two").rglob("*.safetensors"))  # nothing stays on a machine
    refused(run(*words, "--on", "ray"), f"{target}: steps on nodes write into one directory")


def test_a_search_killed_in_a_trial_goes_on_on_another_machine(
    place: RemotePath,
    store: Store,
    tmp_path: Path,
) -> None:
    corpus = write_corpus(tmp_path / "corpus", train=16, valid=4)
    (tmp_path / "space.toml").write_text(SPACE)
    values = (
        f"data.corpus={corpus}", "run.steps=4", "validation.every_steps=2", "run.save_every_steps=2",
        "model.shape.width=8", "model.shape.ffn_width=8", "data.story_tokens=16", "run.tensorboard=false",
    )  # fmt: skip
    settings = [word for value in values for word in ("--set", value)]
    words = ("search", "tiny/pretrain", "--space", tmp_path / "space.toml", "--trials", 2, "--no-pruning", *settings)
    assert run(*words, "--out", tmp_path / "here").returncode == 0
    target = place / "search"
    killed = Started(tmp_path / "log", *words, "--out", target, XDG_CACHE_HOME=str(tmp_path / "one"))
    killed.kill_when(has(target, "trials/0001/last-"))
    done = run(*words, "--out", target)  # with another cache
    assert done.returncode == 0, done.stderr
    assert "trial 0: " not in done.stderr
    files, here = held(target), contents(tmp_path / "here")
    for name in ("trials.csv", "search.json"):
        assert files[name] == here[name], name
    assert f'out = "{target}/best"' in files["best.toml"].decode()
    with remote_lock.held(target / ".lock", "it"):
        refused(run(*words, "--out", target), f"{target}: in use by another run")
