"""Paths and URIs: what is taken for which, names, pickling, what cannot be done with a URI; stores without a lock."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import run

from discodvt import mirrored, storage
from discodvt.artefacts import open_output_file
from discodvt.errors import BadRequest
from discodvt.storage import RemotePath, locate, remove


def test_uris_are_told_from_local_paths() -> None:
    for text in ("s3://bucket/a", "gs://bucket", "hdfs://host:8020/a/b"):
        assert str(locate(text)) == text
        assert str(locate(Path(text))) == text  # as the command line hands it over
    for text in ("s3", "a/s3:/b", "/s3:/b", "http://x/y", "s3:x", "-", "C:/stories"):
        assert type(locate(text)) is type(Path())
        assert str(locate(text)) == str(Path(text))


def test_parts_of_a_uri() -> None:
    path = locate("s3://bucket/corpus") / "train.parquet"
    assert isinstance(path, RemotePath)
    assert (path.scheme, path.bucket, path.key) == ("s3", "bucket", "corpus/train.parquet")
    assert (path.name, path.suffix, str(path.parent)) == ("train.parquet", ".parquet", "s3://bucket/corpus")
    assert str(path.with_name("x").with_suffix(".y")) == "s3://bucket/corpus/x.y"
    assert pickle.loads(pickle.dumps(path)) == path == path.absolute() == path.resolve()
    assert path != locate("s3://bucket/corpus/valid.parquet")
    assert str(pickle.loads(pickle.dumps(path))) == str(path)
    assert type(path.parent) is RemotePath


def test_what_opens_files_by_name_is_refused_a_uri() -> None:
    with pytest.raises(BadRequest, match="s3://bucket/a: only a local path will do here"):
        os.fspath(locate("s3://bucket/a"))
    with pytest.raises(BadRequest, match="cannot be opened for writing in place"):
        locate("s3://bucket/a").open("w")
    with pytest.raises(BadRequest, match="no bucket; expected s3://BUCKET/PATH"):
        locate("s3://").exists()


def test_removing_local_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").touch()
    for name in ("a", "c", "none"):
        remove(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=["gs", "hdfs"])
def other_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store without a lock, in memory: Arrow's face of fsspec in place of Google's store or HDFS."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    monkeypatch.setattr(storage, "_connect", lambda scheme, bucket: PyFileSystem(FSSpecHandler(memory)))
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    yield locate(f"{request.param}://bucket:8020/place")
    memory.store.clear()


@pytest.mark.filterwarnings("always:.*has no lock:UserWarning")
def test_a_stage_in_a_store_without_a_lock(other_store: Path, tmp_path: Path) -> None:
    """The same files, the manifest last; and it is said that nothing keeps another run out."""
    (tmp_path / "raw.jsonl").write_text('{"prompt": "A fox", "story": "It ran home."}\n' * 3)
    words = ("prepare", "jsonl", tmp_path / "raw.jsonl", "--no-deduplicate", "--split", "100/0/0")
    assert run(*words, tmp_path / "corpus").returncode == 0
    done = run(*words, other_store / "corpus")
    assert done.returncode == 0, done.stderr
    said = f"{other_store}/corpus: {other_store.parts[0]}// has no lock; see to it that no other run writes there"
    assert done.stderr.count(f"discodvt: warning: {said}\n") == done.stderr.count("lock") == 1
    names = {path.name: path.read_bytes() for path in (tmp_path / "corpus").iterdir()}
    assert {path.name: path.read_bytes() for path in (other_store / "corpus").iterdir()} == names
    with open_output_file(other_store / "a.txt", "it", config={}) as file:
        file.append(b"one ")
    assert not (other_store / "a.txt").exists()  # parts, until it is whole
    with open_output_file(other_store / "a.txt", "it", config={}) as file:
        file.append(b"two")
        file.finish()
    assert (other_store / "a.txt").read_bytes() == b"one two"
    assert sorted(path.name for path in other_store.iterdir()) == ["a.txt", "a.txt.manifest.json", "corpus"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_output_made_here_is_put_as_whole_states(
    other_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    target = other_store / "run"
    assert isinstance(target, RemotePath)

    def files() -> dict[str, str]:
        held = (path for path in target.rglob("*") if path.is_file())
        return {"/".join(path.parts[len(target.parts) :]): path.read_text() for path in held}

    with mirrored.mirrored(target, growing=("log",), without=("tokens",)) as mirror:
        for name, text in {"log": "1\n", "last-1/model": "one", "tokens/0": "x", "model.partial": "x"}.items():
            (mirror.local / name).parent.mkdir(exist_ok=True)
            (mirror.local / name).write_text(text)
        mirror.send()
        assert files().keys() == {"log", "last-1/model", mirrored.INDEX}
    assert not mirror.local.exists()
    (target / "log").write_text("1\n2\n")  # of a state that was never whole
    with mirrored.mirrored(target, growing=("log",)) as mirror:
        assert (mirror.local / "log").read_text() == "1\n"
        (mirror.local / "last-1" / "model").rename(mirror.local / "model")
        (mirror.local / "manifest.json").write_text("{}")
        mirror.finish()
    assert files() == {"log": "1\n", "model": "one", "manifest.json": "{}"}
    with mirrored.mirrored(target) as mirror:  # of finished work nothing but what it is
        assert [path.name for path in mirror.local.iterdir()] == ["manifest.json"]
        monkeypatch.setattr(mirrored, "upload", lambda local, there: 1 / 0)
        (mirror.local / "model").write_text("another")
        with pytest.raises(ZeroDivisionError):
            mirror.send()
    with mirrored.mirrored(target) as mirror:  # replacing it broke off: nothing is taken for a state
        assert list(mirror.local.iterdir()) == []
    (target.parent / "other" / "letter").write_text("dear")
    refusal = pytest.raises(BadRequest, match="other: not empty and not made by discodvt")
    with refusal, mirrored.mirrored(target.parent / "other"):
        pass
