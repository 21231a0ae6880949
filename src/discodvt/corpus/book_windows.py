"""Books cut into overlapping windows: what a model learns to go on from, for stories longer than its positions.

A window is a tail of the text before it, then new text; both are whole sentences. Its story has at least so many words,
or subwords of a tokenizer; only the last window of a book may have fewer. So with a model's `story_tokens` as length,
training cuts every window but the last, and the only ends it sees are ends of books. The prompt is the book's title;
the tail begins the story, as in the windows a long story is written in (`discodvt.writing.long_story`), or ends the
prompt, for models that are to be given it there.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple

from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TailIn = Literal["story", "prompt"]
DEFAULT_TITLE = "title"  # the column of a book's title


class Window(NamedTuple):
    """A piece of a book: text that was there before, and text that goes on from it."""

    tail: str
    new: str

    def pair(self, title: str, tail_in: TailIn) -> tuple[str, str]:
        """Prompt and story."""
        if tail_in == "prompt":
            return "\n".join(part for part in (title, self.tail.strip()) if part), self.new.strip()
        return title, (self.tail + self.new).strip()


class WindowCutter:
    """Cuts a book into windows whose story has at least `length` units, with tails of at least `tail` of them."""

    def __init__(self, length: int, tail: int, tail_in: TailIn = "story", tokenizer: "Tokenizer | None" = None) -> None:
        if not 1 <= tail <= length // 2:
            raise BadRequest(
                f"`tail` {tail}: expected from 1 to half of `segment_length` {length}", ("tail", "segment_length")
            )
        self.length, self.tail, self.tail_in = length, tail, tail_in
        self._tokenizer = tokenizer

    def windows(self, text: str) -> Iterator[Window]:
        spans = [(start, end) for start, end in split_sentences(text) if text[start:end].strip()]
        ends = [0, *accumulate(self._sizes([text[start:end] for start, end in spans]))]  # units before each sentence
        first = begin = 0  # sentences: of the window, of its new text
        while begin < len(spans):
            counted = first if self.tail_in == "story" else begin
            end = begin + 1
            while end < len(spans) and ends[end] - ends[counted] < self.length:
                end += 1
            yield Window(text[spans[first][0] : spans[begin][0]], text[spans[begin][0] : spans[end - 1][1]])
            first, begin = self._tail_of(ends, end), end

    def _tail_of(self, ends: Sequence[int], end: int) -> int:
        """The first sentence of the tail that ends before sentence `end`; it never fills more than half a window."""
        first = end
        while first > 0 and ends[end] - ends[first] < self.tail and ends[end] - ends[first - 1] <= self.length // 2:
            first -= 1
        return first

    def _sizes(self, sentences: Sequence[str]) -> list[int]:
        if self._tokenizer is None:
            return [len(sentence.split()) for sentence in sentences]
        encoded = self._tokenizer.encode_batch_fast(
            [f" {each.strip()}" for each in sentences], add_special_tokens=False
        )
        return [len(each.ids) for each in encoded]
