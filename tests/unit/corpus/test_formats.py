"""Text files in every packing, sound, broken and endless."""

import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from discodvt.corpus import CORPUS_SCHEMA, read_rows, write_rows
from discodvt.corpus.formats import find_file, json_object, read_csv, read_lines, read_parquet
from discodvt.errors import BadRequest

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("suffix", PACK)
def test_lines_of_every_packing(tmp_path: Path, suffix: str) -> None:
    long = "x" * 5_000_000
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](f"\ufefffirst\r\n{long}\n\n\u2028last".encode()))
    lines = list(read_lines(path))
    assert [line.content for line in lines] == ["first", long, "", "\u2028last"]
    assert [line.number for line in lines] == [1, 2, 3, 4]
    assert lines[-1].position == path.stat().st_size


def test_several_frames_are_one_file(tmp_path: Path) -> None:
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(PACK[suffix](b"one\n") + PACK[suffix](b"two\n"))
        assert [line.content for line in read_lines(path)] == ["one", "two"]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("harm", ["cut", "tail", "flip", "plain"])
def test_broken_packing_is_named(tmp_path: Path, suffix: str, harm: str) -> None:
    whole = PACK[suffix]("".join(f"line {i * i}\n" for i in range(5000)).encode())
    broken = {"cut": whole[: len(whole) // 2], "tail": whole[:-3], "plain": b"plain text\n" * 9}
    broken["flip"] = whole[:500] + bytes([whole[500] ^ 255]) + whole[501:]
    path = tmp_path / f"a{suffix}"
    path.write_bytes(broken[harm])
    with pytest.raises(BadRequest, match=rf"a{suffix}:\d+: truncated or corrupt .*again"):
        list(read_lines(path))


def test_bad_utf8_says_line_and_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nbad \xff here\n")
    with pytest.raises(BadRequest, match=r"a\.txt:2: not UTF-8 at byte 9; save"):
        list(read_lines(path))
    path.write_bytes(b"surrogate \xed\xa0\x80\n")
    with pytest.raises(BadRequest, match=r"a\.txt:1: not UTF-8 at byte 10"):
        list(read_lines(path))


def test_missing_empty_and_directory(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "empty.gz").write_bytes(gzip.compress(b""))
    for name, message in (
        ("none", "no such file"),
        ("empty", "empty"),
        ("empty.gz", "empty"),
        (".", "Is a directory"),
    ):
        with pytest.raises(BadRequest, match=message):
            list(read_lines(tmp_path / name))


def test_packed_form_is_found(tmp_path: Path) -> None:
    assert find_file(tmp_path, "plots") is None
    (tmp_path / "plots.zst").touch()
    assert find_file(tmp_path, "plots") == tmp_path / "plots.zst"


@pytest.mark.parametrize("suffix", PACK)
def test_an_endless_line_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACK[suffix](b"short\n" + b"x" * ((1 << 20) + 1)))
    message = r":2: a line of more than 1 MB; split it, or raise `max_story_mb`$"
    with pytest.raises(BadRequest, match=message):
        list(read_lines(path, max_story_mb=1))
    assert len(list(read_lines(path))) == 2


BOMB = """
import resource, sys
from pathlib import Path
from discodvt.corpus.formats import read_lines
from discodvt.errors import BadRequest
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(read_lines(Path(sys.argv[1])))
except BadRequest as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_ten_gigabytes_in_ten_megabytes_need_little_memory_and_time(tmp_path: Path) -> None:
    frame = gzip.compress(b"x" * (64 << 20))
    path = tmp_path / "bomb.gz"
    path.write_bytes(frame * 160)
    result = subprocess.run(
        [sys.executable, "-c", BOMB, str(path)], capture_output=True, text=True, timeout=30, check=True
    )
    error, megabytes = result.stdout.splitlines()
    assert error.endswith("bomb.gz:1: a line of more than 16 MB; split it")
    assert int(megabytes) < 100


def test_a_csv_row_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('prompt,story\np,"' + "and on\n" * 200_000)
    with pytest.raises(BadRequest, match=r"a\.csv:\d+: a row of more than 1 MB; split it"):
        list(read_csv(path, lambda columns, place: list(columns), max_story_mb=1))


def test_a_long_value_of_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"story": ["short", "x" * ((1 << 20) + 1)]}), tmp_path / "a.parquet")
    with pytest.raises(BadRequest, match=r"a\.parquet: row 2: a value of more than 1 MB"):
        list(read_parquet(tmp_path / "a.parquet", lambda columns, place: ["story"], max_story_mb=1))


def test_a_doubled_column_is_refused(tmp_path: Path) -> None:
    twice = pa.table([["a"], ["b"], ["c"]], names=["story", "story", "prompt"])
    pq.write_table(twice, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("story,story,prompt\na,b,c\n")
    for read, name in ((read_parquet, "a.parquet"), (read_csv, "a.csv")):
        with pytest.raises(BadRequest, match="the column `story` is there twice"):
            list(read(tmp_path / name, lambda columns, place: ["story"]))
        assert len(list(read(tmp_path / name, lambda columns, place: ["prompt"]))) == 1
    pq.write_table(pa.table([["a"]] * 4, names=["id", "id", "prompt", "story"]), tmp_path / "b.parquet")
    with pytest.raises(BadRequest, match="the column `id` is there twice"):
        list(read_rows(tmp_path / "b.parquet", CORPUS_SCHEMA))


def test_a_number_of_thousands_of_digits(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"here:1: a number of thousands of digits; write it as text"):
        json_object(f'{{"id": {"9" * 5000}}}', "here:1")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    write_rows(folder / "train.parquet", [{"id": "1", "prompt": "p", "story": "s"}], CORPUS_SCHEMA)
    assert [row["id"] for row in read_rows(folder / "train.parquet", CORPUS_SCHEMA)] == ["1"]
    assert [record.values for record in read_parquet(folder / "train.parquet", lambda columns, place: ["id"])]
