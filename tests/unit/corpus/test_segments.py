"""Segments of books: contiguous, long enough, ending with a word, the same however the text comes in."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discodvt.corpus import segments
from discodvt.corpus.segments import Segmenter, load_tokenizer
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
    monkeypatch.setattr(segments, "CHARACTERS_AT_ONCE", 50)
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
    monkeypatch.setattr(segments, "CHARACTERS_AT_ONCE", 60)
    assert list(Segmenter(20, tokenizer).segments(text.splitlines(keepends=True))) == whole
    monkeypatch.setattr(segments, "CHARACTERS_PER_SUBWORD", 1)
    assert list(Segmenter(20, tokenizer).segments([text])) == whole


@needs_bart
def test_a_word_cut_by_the_window_is_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "CHARACTERS_PER_SUBWORD", 1)  # a window of `ef`: two subwords, `effort` is one
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
