"""Stage directories: locked, resumed by the same request only, whole or not there."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import discodvt
from discodvt.artefacts import open_output_file, open_stage, read_manifest
from discodvt.errors import BadRequest


def test_a_finished_stage_has_a_manifest_and_nothing_temporary(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_text("x")
    with open_stage(tmp_path / "out", "make", config={"n": 1}, inputs=[source]) as stage:
        assert not stage.complete
        with stage.writing("sub/a.txt") as path:
            path.write_text("done")
        (tmp_path / "out" / "left.partial").write_text("from a killed run")
        (tmp_path / "out" / "best-7.partial" / "inner.partial").mkdir(parents=True)
        stage.finish(stories=3)
        assert stage.complete
    assert sorted(p.name for p in (tmp_path / "out").rglob("*") if p.is_file()) == ["a.txt", "manifest.json"]
    manifest = read_manifest(tmp_path / "out", "make")
    assert manifest["config"] == {"n": 1}
    assert manifest["facts"] == {"stories": 3}
    assert manifest["inputs"]["in.txt"] == "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert manifest["versions"]["discodvt"]


def test_the_commit_is_that_of_the_package_not_of_a_repository_around_it(tmp_path: Path) -> None:
    package = tmp_path / "venv" / "discodvt"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("resumable.py", "storage.py", "errors.py"):
        shutil.copy(Path(discodvt.__file__).parent / name, package / name)
    said = [sys.executable, "-c", "from discodvt.resumable import provenance; print(provenance()['commit'])"]
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    commits = []
    for words in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "-m", "x"], ["add", "venv"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
        told = subprocess.run(said, cwd=package.parent, capture_output=True, text=True, check=True)
        commits.append(told.stdout.strip())
    assert commits[:2] == ["None", "None"]
    assert len(commits[2]) == 40


def write_half(path: Path) -> None:
    path.write_text("half")
    raise RuntimeError


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    with (
        open_stage(tmp_path, "make", config={}) as stage,
        pytest.raises(RuntimeError),
        stage.writing("a.txt") as path,
    ):
        write_half(path)
    assert [p.name for p in tmp_path.iterdir()] == ["stage.json"]


def test_an_unfinished_stage_is_resumed_by_the_same_request_only(tmp_path: Path) -> None:
    with open_stage(tmp_path, "make", config={"n": 1}) as stage, stage.writing("a.txt") as path:
        path.write_text("kept")
    with pytest.raises(BadRequest, match="unfinished; run its command again"):
        read_manifest(tmp_path)
    with (
        pytest.raises(BadRequest, match="an unfinished `make` with another config"),
        open_stage(tmp_path, "make", config={}),
    ):
        pass
    with (
        pytest.raises(BadRequest, match="holds an unfinished `make`; choose another directory"),
        open_stage(tmp_path, "bake", config={"n": 1}),
    ):
        pass
    with open_stage(tmp_path, "make", config={"n": 1}):
        assert (tmp_path / "a.txt").read_text() == "kept"
    with open_stage(tmp_path, "make", config={"n": 2}, overwrite=True):
        assert not (tmp_path / "a.txt").exists()


def test_what_is_overwritten_stays_until_the_new_work_is_complete(tmp_path: Path) -> None:
    def make(number: int, *, overwrite: bool, refused: bool = False) -> None:
        with open_stage(tmp_path, "make", config={"n": number}, overwrite=overwrite) as stage:
            with stage.writing("part/a.txt") as path:
                path.write_text(str(number))
            if refused:
                stage.abandon()
            else:
                stage.finish(n=number)

    def held() -> tuple[str, int]:
        return (tmp_path / "part" / "a.txt").read_text(), read_manifest(tmp_path)["facts"]["n"]

    make(1, overwrite=False)
    make(2, overwrite=True, refused=True)
    assert held() == ("1", 1)
    with open_stage(tmp_path, "make", config={"n": 3}, overwrite=True):
        assert [path.name for path in tmp_path.glob("*.txt")] == []  # stopped before anything was written
    make(4, overwrite=True, refused=True)
    assert held() == ("1", 1)
    make(5, overwrite=True)
    assert held() == ("5", 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "part"]


def test_an_unreadable_input_leaves_what_was_to_be_overwritten(tmp_path: Path) -> None:
    with open_stage(tmp_path, "make", config={}) as stage:
        stage.finish()
    missing = tmp_path.parent / "missing.txt"
    with pytest.raises(BadRequest), open_stage(tmp_path, "make", config={}, inputs=[missing], overwrite=True):
        pass
    assert read_manifest(tmp_path)["stage"] == "make"


def test_what_is_read_and_what_another_stage_made_is_never_overwritten(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    with open_stage(corpus, "prepare", config={}) as stage:
        with stage.writing("test.parquet") as path:
            path.write_text("stories")
        stage.finish()
    for target, inputs, message in (
        (corpus, [corpus / "test.parquet"], "holds .*test.parquet, which is read"),
        (tmp_path, [corpus / "test.parquet"], "holds .*test.parquet, which is read"),
        (corpus, [], "made by `prepare`, `evaluate` will not overwrite it"),
    ):
        with (
            pytest.raises(BadRequest, match=message),
            open_stage(target, "evaluate", config={}, inputs=inputs, overwrite=True),
        ):
            pass
    assert sorted(path.name for path in corpus.iterdir()) == ["manifest.json", "test.parquet"]


def test_a_refused_request_leaves_no_directory_that_was_not_there(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        with open_stage(tmp_path / name, "make", config={}) as stage:
            stage.abandon()
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_is_locked_while_in_use(tmp_path: Path) -> None:
    with (
        open_stage(tmp_path, "make", config={}),
        pytest.raises(BadRequest, match="in use by another run"),
        open_stage(tmp_path, "make", config={}),
    ):
        pass


HOLD = """
import sys, time
from pathlib import Path
from typing import Any
from discodvt.artefacts import open_output_file, open_stage
open_it = open_stage if sys.argv[2] == "directory" else open_output_file
with open_it(Path(sys.argv[1]), "make", config={}):
    print("open", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize(("kind", "open_it"), [("directory", open_stage), ("file", open_output_file)])
def test_another_process_is_kept_out_until_it_is_gone(tmp_path: Path, kind: str, open_it: Any) -> None:
    out = tmp_path / "out"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(out), kind], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(BadRequest, match="in use by another run"), open_it(out, "make", config={}):
            pass
        other.kill()
    with open_it(out, "make", config={}) as output:  # a lock file that was left is neither a lock nor foreign
        output.finish()
    assert sorted(path.name for path in tmp_path.rglob("*") if "lock" in path.name) == []


def test_a_kill_while_work_is_set_aside_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_stage(tmp_path, "make", config={}) as stage:
        for name in ("a.txt", "b.txt"):
            with stage.writing(name) as path:
                path.write_text(name)
        stage.finish()
    moved: list[Path] = []

    def killed(path: Path, target: Path) -> None:
        if len(moved) == 2:  # the manifest and one of the files
            raise KeyboardInterrupt
        moved.append(path)
        path.rename(target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt), open_stage(tmp_path, "make", config={"n": 2}, overwrite=True):
            pass
    with pytest.raises(BadRequest, match="not made by discodvt"):
        read_manifest(tmp_path)
    with open_stage(tmp_path, "make", config={}) as stage:
        assert stage.complete
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "manifest.json"]


def test_an_error_about_another_config_names_the_keys_that_differ(tmp_path: Path) -> None:
    config = {"optimizer": {"learning_rate": 0.1, "betas": [0.9, 0.98]}, "seed": 1, "note": "x" * 99}
    other = {"optimizer": {"learning_rate": 0.2, "betas": [0.9, 0.98]}, "seed": 1, "steps": 5}
    with open_stage(tmp_path, "make", config=config):
        pass
    with pytest.raises(BadRequest) as refused, open_stage(tmp_path, "make", config=other):
        pass
    assert (
        f'with another config (note: "{"x" * 38}… there, null asked for; '
        "optimizer.learning_rate: 0.1 there, 0.2 asked for; steps: null there, 5 asked for); choose"
    ) in str(refused.value)


def test_a_named_key_may_change_when_a_run_is_resumed(tmp_path: Path) -> None:
    def opened(rate: float, **options: Any) -> Any:
        return open_stage(tmp_path, "make", config={"optimizer": {"rate": rate}, "seed": 1}, **options)

    with opened(0.1):
        pass
    with opened(0.2, may_change=["optimizer.rate"]):
        pass
    with opened(0.3, may_change=["optimizer.rate"]) as stage:
        stage.finish()
    manifest = read_manifest(tmp_path)
    assert manifest["config"]["optimizer"]["rate"] == 0.3
    assert manifest["changes"] == [
        {"key": "optimizer.rate", "from": 0.1, "to": 0.2},
        {"key": "optimizer.rate", "from": 0.2, "to": 0.3},
    ]


def test_names_of_inputs_need_not_be_utf8(tmp_path: Path) -> None:
    source = tmp_path / os.fsdecode(b"caf\xe9.txt")
    source.write_text("x")
    for complete in (False, True):
        with open_stage(tmp_path / "out", "make", config={}, inputs=[source]) as stage:
            assert stage.complete == complete
            if not complete:
                stage.finish()


def test_foreign_directories_are_never_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    for overwrite in (False, True):
        with pytest.raises(BadRequest), open_stage(tmp_path, "make", config={}, overwrite=overwrite):
            pass
    with pytest.raises(BadRequest, match="a file is in the way"), open_stage(tmp_path / "mine.txt", "make", config={}):
        pass
    below = tmp_path / "mine.txt" / "below"
    with pytest.raises(BadRequest, match="Not a directory; give a directory"), open_stage(below, "make", config={}):
        pass
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_wrong_directories_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="no such directory"):
        read_manifest(tmp_path / "none")
    with pytest.raises(BadRequest, match="not made by discodvt"):
        read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"stage": "make"}))
    with pytest.raises(BadRequest, match="made by `make`, expected the output of `bake`"):
        read_manifest(tmp_path, "bake")
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(BadRequest, match="not readable as JSON"), open_stage(tmp_path, "make", config={}):
        pass
