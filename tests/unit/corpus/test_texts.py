"""Cleaning of texts, and reading of text files in every packing, sound and broken."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from discodvt.corpus.cleaning import drop_newline_markers, normalise, replace_surrogates, strip_accents, strip_tags
from discodvt.corpus.textfiles import find_file, read_lines
from discodvt.errors import BadRequest

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def test_cleaning() -> None:
    assert replace_surrogates("a\ud800b 😀") == "a\ufffdb 😀"
    assert strip_accents("Café naïve Å") == "Cafe naive A"
    assert drop_newline_markers("One . <newline> <newline> Two . <newlines>") == "One . Two ."
    assert strip_tags("[ WP ] A fox") == "A fox"
    assert strip_tags("[WP] [ OT ] A [fox]") == "A [fox]"
    assert strip_tags("A [ WP ] fox") == "A [ WP ] fox"
    assert normalise(" The\n FOX\u00a0ran ") == "the fox ran"


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
