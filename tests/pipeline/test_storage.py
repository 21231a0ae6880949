"""Stages from and to `s3://`, against moto's S3 server: same bytes, killed and resumed, locks, stores that fail."""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline.test_generate import SHORT, models  # noqa: F401 - a fixture
from pipeline.toy_corpus import contents, make_corpus, story
from pipeline.toy_store import Store, held
from program import Started, refused, run

from discodvt import output_file, remote_lock, storage
from discodvt.errors import WorkFailed
from discodvt.evaluation.metrics import word_tokens
from discodvt.storage import RemotePath
from discodvt.writing.generate_stage import StoriesFile


@pytest.fixture(scope="module")
def stages(models: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Callable[[Path, Path], None]]:  # noqa: F811
    """Prepare, annotate, generate and evaluate, one after the other; and what they make of local files."""
    local = tmp_path_factory.mktemp("local")
    lines = (
        json.dumps({"prompt": f"A day with {number}", "story": str(story(number)["story"])}) for number in range(90)
    )
    (local / "raw.jsonl").write_text("\n".join(lines) + "\n")

    def run_all(raw: Path, home: Path) -> None:
        for words in (
            ("prepare", "jsonl", raw, home / "corpus", "--split", "60/10/30"),
            ("annotate", home / "corpus", home / "annotated"),
            ("generate", "--model", models / "writer", "--prompts", home / "corpus" / "test.parquet", *SHORT,
             "--output", home / "written.jsonl"),
            ("evaluate", home / "written.jsonl", "--references", home / "corpus", "--out", home / "scores",
             "--resamples", 20),
        ):  # fmt: skip
            done = run(*words)
            assert done.returncode == 0, done.stderr

    run_all(local / "raw.jsonl", local / "home")
    return local, run_all


def test_the_same_bytes_as_local_even_when_every_fifth_request_fails(
    stages: tuple[Path, Callable[[Path, Path], None]], store: Store, place: Path
) -> None:
    local, run_all = stages
    raw = store.put(local / "raw.jsonl", "raw/raw.jsonl")
    store.fail_every = 5
    try:
        run_all(raw, place)
    finally:
        store.fail_every = 0
    assert held(place) == contents(local / "home")


@pytest.mark.usefixtures("quick_locks")
def test_a_killed_annotation_is_resumed(store: Store, place: Path, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=150)
    assert run("annotate", corpus, tmp_path / "out").returncode == 0
    there, out = store.put_all(corpus, f"{place.name}/corpus"), place / "out"
    assert Started(tmp_path / "log", "annotate", there, out, kill_at=2).end() == -signal.SIGKILL
    assert "manifest.json" not in held(out)
    assert len(held(out / "shards")) == 2  # of three
    result = run("annotate", there, out)  # waits until the lock of the dead run is known to be dead
    assert result.returncode == 0, result.stderr
    assert held(out) == contents(tmp_path / "out")


def test_stories_killed_halfway_are_kept_as_parts_and_resumed(
    models: Path,  # noqa: F811
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_file, "PART_SECONDS", 0.0)
    request = ("generate", "--model", models / "writer", *(f"A day with {number}" for number in range(12)), *SHORT)
    assert run(*request, "--output", tmp_path / "a.jsonl").returncode == 0
    add, added = StoriesFile.add, []

    def killed(self: StoriesFile, told: Any) -> None:
        if len(added) == 5:
            raise WorkFailed("killed")
        added.append(told.id)
        add(self, told)

    monkeypatch.setattr(StoriesFile, "add", killed)
    assert run(*request, "--output", place / "a.jsonl").returncode == 1
    assert {Path(name).parts[0] for name in held(place)} == {"a.jsonl.parts", "a.jsonl.stage.json"}
    added.clear()
    monkeypatch.setattr(StoriesFile, "add", lambda self, told: (added.append(told.id), add(self, told))[1])
    assert run(*request, "--output", place / "a.jsonl").returncode == 0
    assert added == [str(number) for number in range(6, 13)]
    assert held(place) == contents(tmp_path)
    refused(run(*request, "--seed", 5, "--output", place / "a.jsonl"), "another config (seed: 0 there, 5 asked for)")
    assert run(*request, "--seed", 5, "--output", place / "a.jsonl", "--overwrite").returncode == 0
    assert set(held(place)) == {"a.jsonl", "a.jsonl.manifest.json"}
    assert held(place) != contents(tmp_path)


def test_an_evaluation_broken_off_goes_on_with_the_words_it_has(
    store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("written", 0), ("references", 1)):
        rows = (json.dumps({"id": str(number), "story": story(number, seed)["story"]}) for number in range(12))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
        store.put(tmp_path / f"{name}.jsonl", f"{place.name}/{name}.jsonl")
    request = ("evaluate", place / "written.jsonl", "--references", place / "references.jsonl", "--resamples", 20)
    monkeypatch.setattr(word_tokens, "TEXTS_PER_SHARD", 5)
    assert run(*request, "--out", tmp_path / "out").returncode == 0
    cut, done = word_tokens.tokenize, []

    def counted(text: str) -> list[str]:
        if len(done) == 11:  # in the third of six shards
            raise KeyboardInterrupt
        done.append(text)
        return cut(text)

    monkeypatch.setattr(word_tokens, "tokenize", counted)
    assert run(*request, "--out", place / "out").returncode == 130
    assert len(held(place / "out" / "shards")) == 2
    done[:] = [""] * 12  # none is the eleventh now
    assert run(*request, "--out", place / "out").returncode == 0
    assert len(done) == 12 + 24 - 10
    assert held(place / "out") == contents(tmp_path / "out")


@pytest.mark.usefixtures("quick_locks")
def test_two_runs_exclude_each_other_and_a_dead_one_is_passed_over(store: Store, place: Path, tmp_path: Path) -> None:
    corpus, lock = make_corpus(tmp_path / "corpus", train=3), place / "out" / ".lock"
    assert isinstance(lock, RemotePath)
    with remote_lock.held(lock, "it") as first:
        refused(run("annotate", corpus, place / "out"), f"{place}/out: in use by another run")
        assert first is not None
        assert not remote_lock.RemoteLock(lock, 1).take()  # a number is taken once
    assert held(place) == {}
    with remote_lock.held(lock, "it") as slow:
        assert slow is not None
        slow._released.set()  # no more signs
        slow._thread.join()
        assert run("annotate", corpus, place / "out").returncode == 0
        slow._released.clear()
        lock.with_name(".lock.000002").write_bytes(b"of a third")
        slow._sign()
        with pytest.raises(WorkFailed, match="another run took this one for dead"):
            slow.check()
    assert "manifest.json" in held(place / "out")


def test_a_folder_that_is_replaced_comes_back_after_a_wrong_request(store: Store, place: Path, tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=3)
    assert run("annotate", corpus, place / "out").returncode == 0
    before = held(place / "out")
    refused(run("annotate", corpus, place / "out", "--parser", "spacy:nope", "--overwrite"), "cannot be opened")
    assert held(place / "out") == before


def test_wrong_requests_are_one_line(
    store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=3)
    refused(run("annotate", corpus, "s3://nowhere/out"), "s3://nowhere: no such bucket; create it, or check the name")
    refused(run("annotate", "s3://nowhere/corpus", tmp_path / "out"), "s3://nowhere: no such bucket")
    refused(run("annotate", place / "none", tmp_path / "out"), f"{place}/none: no train.parquet")
    whole = (corpus / "train.parquet").read_bytes()
    (place / "cut" / "train.parquet").write_bytes(whole[:-20])
    refused(run("annotate", place / "cut", place / "out"), "cut/train.parquet: not a Parquet file, or a truncated one")
    monkeypatch.setattr(storage, "TRIES", 3)  # nine take thirteen seconds
    storage._connect.cache_clear()
    assert (place / "cut" / "train.parquet").exists()
    store.fail_every = 1
    try:
        line = refused(run("annotate", corpus, place / "out"), f"{place}/out", "the store failed 3 times", code=1)
    finally:
        store.fail_every = 0
    assert "the same command goes on" in line
    assert set(held(place)) == {"cut/train.parquet"}
    assert not (tmp_path / "out").exists()
    storage._connect.cache_clear()
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    refused(run("annotate", corpus, place / "out"), "no credentials; set AWS_ACCESS_KEY_ID")
    monkeypatch.setitem(sys.modules, "boto3", None)
    refused(run("annotate", corpus, place / "out"), "S3 needs the extra `cloud`; pip install 'discodvt[cloud]'")
