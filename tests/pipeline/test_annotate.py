"""The annotate command on corpora: any number of workers, killed and resumed, wrong requests."""

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.toy_corpus import contents, make_corpus
from program import Started, refused, run

from discodvt.artefacts import open_stage, read_manifest
from discodvt.corpus import ANNOTATED_SCHEMA, CORPUS_SCHEMA, read_rows, write_rows
from discodvt.discourse import Annotator
from discodvt.discourse.annotate_corpus import annotate_corpus
from discodvt.errors import BadRequest, WorkFailed

annotate = partial(run, "annotate")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", train=400, valid=40)


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("annotated") / "out"
    result = annotate(corpus, out, "--workers", 1)
    assert result.returncode == 0, result.stderr
    return out


def test_every_story_is_there_with_its_edus(corpus: Path, undisturbed: Path, annotator: Annotator) -> None:
    assert sorted(path.name for path in undisturbed.iterdir()) == [
        "manifest.json",
        "relations.png",
        "train.parquet",
        "valid.parquet",
    ]
    rows = list(read_rows(undisturbed / "train.parquet", ANNOTATED_SCHEMA))
    plain = list(read_rows(corpus / "train.parquet", CORPUS_SCHEMA))
    assert [{name: row[name] for name in CORPUS_SCHEMA.names} for row in rows] == plain
    for row in rows[:20]:
        expected = annotator.annotate(row["story"])
        assert [(edu["start"], edu["end"]) for edu in row["edus"]] == expected.edus
        assert row["relations"] == expected.relations
    manifest = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["facts"]["train"]["stories"] == 400
    assert sum(manifest["facts"]["valid"]["relations"].values()) == manifest["facts"]["valid"]["edus"] - 40


@pytest.mark.usefixtures("warm_workers")
def test_three_workers_write_what_one_writes(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    result = annotate(corpus, tmp_path / "out", "--workers", 3)
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path / "out") == contents(undisturbed)


def test_killed_three_times_and_rerun_gives_the_same_bytes(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for shards in (0, 1):  # at the first or the second one that is new
        assert Started(tmp_path / "log", "annotate", corpus, out, kill_at=shards).end() == -signal.SIGKILL
        assert (out / "stage.json").exists()
        assert len(list((out / "shards").glob("*"))) == shards
    killed = Started(tmp_path / "log", "annotate", corpus, out, "--workers", 2)
    killed.kill_when(lambda: len(list((out / "shards").glob("*"))) > 1)
    assert not (out / "manifest.json").exists()
    result = annotate(corpus, out)
    assert result.returncode == 0, result.stderr
    assert contents(out) == contents(undisturbed)


def test_interrupted_workers_say_nothing(corpus: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "discodvt", "annotate", str(corpus), str(tmp_path / "out"), "--workers", "2"]
    process = subprocess.Popen(command, text=True, start_new_session=True, stderr=subprocess.PIPE)
    while not (tmp_path / "out" / "stage.json").exists():
        time.sleep(0.01)
    time.sleep(0.7)  # the workers are importing
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.communicate()[1].count("\n") == 1
    assert process.returncode == 130


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc's allocator")
def test_memory_a_batch_has_freed_serves_the_next_one() -> None:
    """No page of it is asked for again, which takes longer than to use it."""
    code = """
import resource
from discodvt.discourse import annotate_corpus

def faults_of_a_batch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    [b"x" * (20 << 20) for _ in range(3)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

annotate_corpus.Annotator = lambda parser, language: None
annotate_corpus._open("bundled", "english", in_worker=True)
faults_of_a_batch()
print(faults_of_a_batch())
"""
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "GLIBC_TUNABLES")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 1000  # 15,360 pages


def test_counts_are_those_of_the_shards(corpus: Path, undisturbed: Path) -> None:
    facts = read_manifest(undisturbed)["facts"]
    for split, fact in facts.items():
        rows = list(read_rows(undisturbed / f"{split}.parquet", ANNOTATED_SCHEMA))
        relations = Counter(label for row in rows for label in row["relations"])
        assert fact == {
            "stories": len(rows),
            "edus": sum(len(row["edus"]) for row in rows),
            "relations": dict(sorted(relations.items())),
        }


def test_shards_of_another_version_are_refused(tmp_path: Path) -> None:
    corpus, out = make_corpus(tmp_path / "corpus", train=3), tmp_path / "out"
    with open_stage(out, "annotate", config={"parser": "bundled"}, inputs=[corpus / "train.parquet"]) as stage:
        row = {"id": "1", "prompt": "", "story": "x", "edus": [{"start": 0, "end": 1}], "relations": []}
        with stage.writing("shards/train-000000.parquet") as path:
            write_rows(path, [row], ANNOTATED_SCHEMA)
    with pytest.raises(WorkFailed, match="made by another version; start over with `overwrite`"):
        annotate_corpus(corpus, out)


def test_a_finished_directory_is_left_alone(corpus: Path, undisturbed: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()}
    result = annotate(corpus, undisturbed)
    assert result.returncode == 0
    assert {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()} == before


def test_run_again_it_says_that_it_was_complete_and_the_same_as_before(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=3, valid=2, test=1)
    first, second = annotate(corpus, tmp_path / "out"), annotate(corpus, tmp_path / "out")
    assert "already complete" not in first.stdout
    assert [line.split()[0] for line in first.stdout.splitlines()[:3]] == ["train:", "valid:", "test:"]
    assert "test: 1 story, " in first.stdout
    assert second.stdout == f"{tmp_path / 'out'}: already complete\n{first.stdout}"
    assert list(json.loads(annotate(corpus, tmp_path / "out", "--json").stdout)) == ["train", "valid", "test"]


def test_wrong_requests(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    refused(annotate(tmp_path / "nothing", tmp_path / "out"), "nothing", "prepare")
    refused(annotate(corpus), "OUT")
    refused(annotate(), "CORPUS")
    refused(annotate(corpus, tmp_path / "out", "--parser", "wrong"), "unknown parser")
    refused(annotate(corpus, tmp_path / "out", "--language", "german"), "for `en`, not for german", "--language")
    refused(annotate(corpus, tmp_path / "out", "--language", "klingon"), "--language 'klingon'", "english, german")
    assert not (tmp_path / "out").exists()
    other = make_corpus(tmp_path / "other", train=3)
    refused(annotate(other, undisturbed), "other inputs (train.parquet, valid.parquet)", "--overwrite")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    refused(annotate(other, tmp_path / "mine"), "not empty")
    refused(annotate(other, tmp_path / "mine", "--overwrite"), "will not overwrite")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


@pytest.mark.usefixtures("warm_workers")
def test_a_wrong_parser_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    corpus, out = make_corpus(tmp_path / "corpus", train=3), tmp_path / "out"
    for workers in (1, 2):
        refused(annotate(corpus, out, "--parser", "spacy:nope", "--workers", workers), "'nope' cannot be opened")
        assert not out.exists()
    annotate_corpus(corpus, out)
    before = contents(out)
    with pytest.raises(BadRequest, match="nope"):
        annotate_corpus(corpus, out, parser="spacy:nope", overwrite=True)
    with pytest.raises(WorkFailed, match="no answer"):
        annotate_corpus(corpus, out, parser="corenlp:127.0.0.1:1", overwrite=True)
    assert contents(out) == before


def test_shards_are_kept_whatever_is_wrong_later(tmp_path: Path) -> None:
    corpus, out = make_corpus(tmp_path / "corpus", train=70), tmp_path / "out"
    with open_stage(out, "annotate", config={"parser": "spacy:nope"}, inputs=[corpus / "train.parquet"]) as stage:
        stage.write_json("shards/train-000000.parquet", "an hour of work")
    with pytest.raises(BadRequest, match="nope"):
        annotate_corpus(corpus, out, parser="spacy:nope")
    assert (out / "shards" / "train-000000.parquet").exists()


def test_corpora_that_are_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "train.parquet").write_bytes(b"no parquet")
    refused(annotate(broken, tmp_path / "a"), "not a Parquet file")
    pq.write_table(pa.table({"id": ["1"], "text": ["x"]}), broken / "train.parquet")
    refused(annotate(broken, tmp_path / "b"), "no column prompt, story", "id, text")
    pq.write_table(
        pa.table({"id": ["1"], "prompt": ["x"], "story": pa.array([None], pa.string())}), broken / "train.parquet"
    )
    refused(annotate(broken, tmp_path / "c"), "row 0 has no story")
    assert not (tmp_path / "c" / "manifest.json").exists()


def test_two_runs_in_one_directory(tmp_path: Path) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=3)
    with open_stage(tmp_path / "out", "annotate", config={}):
        refused(annotate(corpus, tmp_path / "out"), "in use by another run")


def test_full_disk_fails_with_one_line_and_resumes(corpus: Path, undisturbed: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", disk], capture_output=True).returncode
    ):
        pytest.skip("needs leave to mount a small file system")
    try:
        refused(annotate(corpus, disk / "out"), "No space left", code=1)
        assert not (disk / "out" / "manifest.json").exists()
        assert not list((disk / "out").rglob("*.partial"))
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        assert annotate(corpus, disk / "out").returncode == 0
        assert contents(disk / "out") == contents(undisturbed)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_show_and_page(tmp_path: Path) -> None:
    story = tmp_path / "a_story.txt"
    story.write_bytes("\ufeffThe fox ran because he was late.\r\nThen he slept. 🦊".encode())
    result = annotate("--show", story, "--html", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert "because_arg1_arg2" in result.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>A story</title>" in page
    assert 'data-tip="2: because arg1 arg2 (to EDU 1)"' in page
    shown = json.loads(annotate("--show", story, "--json").stdout)
    assert shown["relations"][:2] == ["because_arg1_arg2", "then_arg1_arg2"]
    refused(annotate("--show", tmp_path / "none.txt"), "no such file")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    refused(annotate("--show", tmp_path / "latin.txt"), "not UTF-8 at byte 3")
    (tmp_path / "empty.txt").write_text(" \n")
    refused(annotate("--show", tmp_path / "empty.txt"), "empty")
    (tmp_path / "endless.txt").write_bytes(b"x" * (17 << 20))
    refused(annotate("--show", tmp_path / "endless.txt"), "endless.txt: a story of more than 16 MB")
    refused(annotate("--show", tmp_path / "latin.txt", "--html", tmp_path / "none" / "page.html"), "no such directory")
