"""Paths and URIs without a store: what is taken for which, names, pickling, and what cannot be done with a URI."""

import os
import pickle
from pathlib import Path

import pytest

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
