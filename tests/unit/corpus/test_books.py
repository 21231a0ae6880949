"""Books and their segments: contiguous, long enough, ending with a word, the same however the text comes in."""

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discodvt.corpus import Books, SourceRow, books
from discodvt.corpus.book_windows import Window, WindowCutter
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


def sentences(count: int, *, words: int = 5) -> str:
    return " ".join(f"{'Word ' * (words - 1)}n{number}." for number in range(count))


def windows_of(text: str, length: int, tail: int, **more: str) -> list[Window]:
    return list(WindowCutter(length, tail, **more).windows(text))  # type: ignore[arg-type]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(4, 30), st.integers(1, 15))
def test_windows_overlap_by_their_tails_and_are_the_book(sizes: list[int], length: int, tail: int) -> None:
    tail = min(tail, length // 2)
    text = " ".join(f"{'Word ' * (size - 1)}N{number}." for number, size in enumerate(sizes))
    for tail_in in ("story", "prompt"):
        found = windows_of(text, length, tail, tail_in=tail_in)
        assert "".join(window.new for window in found) == text  # nothing is lost, nothing comes twice
        assert found[0].tail == ""
        written = ""
        for number, window in enumerate(found):
            assert written.endswith(window.tail)
            assert len(window.tail.split()) <= length // 2
            story = window.pair("Title", tail_in)[1]  # type: ignore[arg-type]
            assert len(story.split()) >= length or number == len(found) - 1
            written += window.new


def test_a_tail_is_whole_sentences_and_goes_where_it_is_asked() -> None:
    found = windows_of(sentences(9), 20, 7)
    assert [window.tail.split()[-1:] for window in found] == [[], ["n3."], ["n5."], ["n7."]]
    assert [len(window.tail.split()) for window in found] == [0, 10, 10, 10]  # at least 7 words, in sentences of 5
    assert found[1].pair("The Fox", "story") == ("The Fox", (found[1].tail + found[1].new).strip())
    assert found[1].pair("The Fox", "prompt") == ("The Fox\n" + found[1].tail.strip(), found[1].new.strip())
    assert found[0].pair("The Fox", "prompt")[0] == "The Fox"


def test_a_sentence_longer_than_half_a_window_is_no_tail() -> None:
    text = f"One two. {'Word ' * 30}end. Three four. Five six."
    assert [window.tail.strip() for window in windows_of(text, 10, 2)] == ["", ""]  # nor would the next have room


def test_tails_that_cannot_be_are_refused() -> None:
    for length, tail in ((10, 6), (10, 0), (1, 1)):
        with pytest.raises(BadRequest, match="from 1 to half of `segment_length`"):
            WindowCutter(length, tail)


def test_windows_of_books_in_files(tmp_path: Path) -> None:
    held = [{"title": "The Fox", "story": sentences(12)}, {"title": "The Owl", "story": sentences(4)}]
    (tmp_path / "books.jsonl").write_text("".join(json.dumps(book) + "\n" for book in held))
    (tmp_path / "old_tale.txt").write_text("A first line\nends here. " + sentences(6))
    source = Books(tmp_path, segment_length=20, tail=5)
    found = rows(source)
    assert {(row.id, row.prompt, row.group) for row in found} >= {
        ("books-1-1", "The Fox", "books-1"), ("books-1-3", "The Fox", "books-1"), ("books-2-1", "The Owl", "books-2"),
        ("old_tale-2", "old tale", "old_tale"),
    }  # fmt: skip
    assert next(row.story for row in found if row.id == "old_tale-1").startswith("A first line\nends here.")
    assert source.settings()["tail"] == 5
    assert "tail" not in Books(tmp_path).settings()  # a corpus of segments is the request it always was
    with pytest.raises(BadRequest, match="no column `name`; it has title, story; name one with `title_column`"):
        rows(Books(tmp_path / "books.jsonl", segment_length=20, tail=5, title_column="name"))


@needs_bart
def test_a_tokenizer_of_the_hub_is_fetched(tmp_path, monkeypatch):
    asked = []

    def download(name, revision=None, allow_patterns=()):
        asked.append((name, *allow_patterns))
        return str(BART)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load_tokenizer(Path("facebook/bart-base")).encode("Hello world", add_special_tokens=False).tokens
    assert asked == [("facebook/bart-base", "tokenizer.json", "vocab.json", "merges.txt")]
