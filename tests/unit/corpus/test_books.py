"""Books and their segments: contiguous, long enough, ending with a word, the same however the text comes in."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discodvt.corpus import Books, SourceRow, books
from discodvt.corpus.books import Segmenter, load_tokenizer
from discodvt.corpus.formats import MAX_STORY_MB
from discodvt.errors import BadRequest

BART = Path(__file__).resolve().parents[4] / "shared" / "tokenizer" / "bart"
needs_bart = pytest.mark.skipif(not BART.is_dir(), reason="no BART tokenizer at ../shared/tokenizer/bart")


@given(st.lists(st.text(alphabet="ab \t", max_size=12).map(lambda line: line + "\n"), max_size=30), st.integers(1, 5))
def test_word_segments_are_the_words_in_order(lines: list[str], length: int) -> None:
    words = "".join(lines).split()
    found = list(Segmenter(length).segments(lines))
    assert all(len(segment.split()) == length for segment in found)
    assert " ".join(found).split() == words[: len(words) // length * length]


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"word{i} and {i * i}\n" for i in range(300)]
    whole = list(Segmenter(7).segments(["".join(lines)]))
    monkeypatch.setattr(books, "CHARACTERS_AT_ONCE", 50)
    assert list(Segmenter(7).segments(lines)) == whole
    assert len(whole) == 900 // 7


@needs_bart
def test_subword_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer(BART)
    text = (
        "The ünbelievable fox’s “quote”\n\n\nran — antidisestablishmentarianism!!! 12345 …\n" * 40
        + "x" * 900
        + " end\n"
    )

    def size(segment: str) -> int:
        return len(tokenizer.encode(" " + segment, add_special_tokens=False).ids)

    for length in (1, 2, 3, 10, 64, 512):
        found = list(Segmenter(length, tokenizer).segments([text]))
        assert found
        assert all(size(segment) >= length for segment in found)
        assert all(size(segment.rsplit(maxsplit=1)[0]) < length for segment in found if " " in segment)
        assert text.split()[: len(" ".join(found).split())] == " ".join(found).split()
    whole = list(Segmenter(20, tokenizer).segments([text]))
    monkeypatch.setattr(books, "CHARACTERS_AT_ONCE", 60)
    assert list(Segmenter(20, tokenizer).segments(text.splitlines(keepends=True))) == whole
    monkeypatch.setattr(books, "CHARACTERS_PER_SUBWORD", 1)
    assert list(Segmenter(20, tokenizer).segments([text])) == whole


@needs_bart
def test_a_word_cut_by_the_window_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "CHARACTERS_PER_SUBWORD", 1)  # a window of `ef`: two subwords, `effort` is one
    assert list(Segmenter(2, load_tokenizer(BART)).segments(["effort giving hunter effect"])) == [
        "effort giving",
        "hunter effect",
    ]


@needs_bart
def test_the_tokenizer_is_barts() -> None:
    assert load_tokenizer(BART).encode("Hello world", add_special_tokens=False).tokens == ["Hello", "Ġworld"]


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="at least 1"):
        Segmenter(0)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BadRequest, match="cannot be read"):
        load_tokenizer(tmp_path)


def rows(source: Books) -> list[SourceRow]:
    return [row for part in source.parts() for row in part.read(MAX_STORY_MB)]


def test_books_by_file_and_by_row(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "one.txt").write_bytes(b"a b c\r\nd e\r\n\r\nf g\r\n")
    (tmp_path / "more" / "one.txt.gz").write_bytes(gzip.compress(b"x y z\n"))
    lines = [{"story": "1 2 3 4 5 6"}, {"story": "7 8"}, {"story": "9 10 11"}]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(book) + "\n" for book in lines))
    found = rows(Books(tmp_path, segment_length=3))
    assert [(row.id, row.story, row.group) for row in found] == [
        ("more/one-1", "x y z", "more/one"),
        ("one-1", "a b c", "one"),
        ("one-2", "d e\n\nf", "one"),
        ("two-1-1", "1 2 3", "two-1"),
        ("two-1-2", "4 5 6", "two-1"),
        ("two-3-1", "9 10 11", "two-3"),
    ]
    assert {row.prompt for row in found} == {""}


def test_books_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadRequest, match=r"no such file or directory|no \.txt or \.jsonl"):
            Books(path).files()
    (tmp_path / "a.txt").write_text("a b")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(BadRequest, match="keep one of the two"):
        Books(tmp_path).files()
    with pytest.raises(BadRequest, match=r"a\.jsonl:1: no column `story`; it has text; name one with `story_column`"):
        rows(Books(tmp_path / "a.jsonl"))
    with pytest.raises(BadRequest, match="no tokenizer; expected"):
        Books(tmp_path / "a.txt", tokenizer=tmp_path).files()


def test_a_segment_without_end_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("and on and on\n" * 100_000)
    (part,) = Books(tmp_path / "a.txt", segment_length=10_000_000).parts()
    with pytest.raises(BadRequest, match=r"a.txt:\d+: a segment of more than 1 MB; split it, or raise `max_story_mb`"):
        list(part.read(1))
