"""Contiguous segments of a long text: each of at least so many words or subwords, ending with a word.

Text comes in pieces that end with a word (lines of a file, or a whole book), so that a book of any size is cut without
being held. What is left at the end and too short is dropped.
"""

import re
from collections.abc import Generator, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORD = re.compile(r"\S+")
_REST_OF_WORD = re.compile(r"\S*")
CHARACTERS_AT_ONCE = 1 << 16
CHARACTERS_PER_SUBWORD = 6  # a first guess that is mostly enough: English has 4 to 5


class Segmenter:
    """Cuts text into segments of at least `length` subwords of `tokenizer`, or words without one."""

    def __init__(self, length: int, tokenizer: "Tokenizer | None" = None) -> None:
        if length < 1:
            raise BadRequest(f"`segment_length` {length}: expected at least 1", parameter="segment_length")
        self.length = length
        self._find_end = partial(self._end_by_subwords, tokenizer) if tokenizer else self._end_by_words

    def segments(self, pieces: Iterable[str]) -> Iterator[str]:
        """The segments of the text the pieces make together, without outer whitespace."""
        waiting: list[str] = []
        size = 0
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= CHARACTERS_AT_ONCE:
                rest = yield from self._cut("".join(waiting))
                waiting, size = [rest], 0  # counts new text only, so that a long segment is not looked for in vain
        yield from self._cut("".join(waiting))

    def _cut(self, text: str) -> Generator[str, None, str]:
        """Yield the segments of a text; return what is left of it."""
        start = 0
        while (end := self._find_end(text, start)) is not None:
            yield text[start:end].strip()
            start = end
        return text[start:]

    def _end_by_words(self, text: str, start: int) -> int | None:
        for count, word in enumerate(_WORD.finditer(text, start), start=1):
            if count == self.length:
                return word.end()
        return None

    def _end_by_subwords(self, tokenizer: "Tokenizer", text: str, start: int) -> int | None:
        """Encode a window, widened until it holds the last subword's word whole; a space before, as in training."""
        first = _next_word(text, start)
        width = self.length * CHARACTERS_PER_SUBWORD
        while first is not None:
            window = text[first : first + width]
            offsets = tokenizer.encode(" " + window, add_special_tokens=False).offsets
            if len(offsets) >= self.length:
                end = _end_of_word(text, first + offsets[self.length - 1][1] - 1)
                if end is not None and end <= first + width:
                    return end
            if first + width >= len(text):
                return None
            width *= 2
        return None


def tokenizer_files(directory: Path) -> list[Path]:
    """The files a tokenizer is loaded from: `tokenizer.json`, or `vocab.json` and `merges.txt`."""
    for names in (("tokenizer.json",), ("vocab.json", "merges.txt")):
        paths = [directory / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    raise BadRequest(
        f"{directory}: no tokenizer; expected tokenizer.json, or vocab.json with merges.txt, in a directory"
    )


def load_tokenizer(directory: Path) -> "Tokenizer":
    """A fast tokenizer from its files; `vocab.json` with `merges.txt` is byte-level BPE, as BART's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    files = [str(path) for path in tokenizer_files(directory)]
    try:
        if len(files) == 1:
            return Tokenizer.from_file(files[0])
        tokenizer = Tokenizer(models.BPE.from_file(*files))
    except Exception as error:  # the library raises bare exceptions
        raise BadRequest(f"{directory}: the tokenizer cannot be read ({error}); download it again") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _next_word(text: str, start: int) -> int | None:
    found = _WORD.search(text, start)
    return found.start() if found else None


def _end_of_word(text: str, position: int) -> int | None:
    """The end of the word at a position, or of the next one where whitespace is there."""
    if position > 0 and text[position - 1 : position].strip():
        found = _REST_OF_WORD.match(text, position)
        return found.end() if found else position
    word = _WORD.search(text, position)
    return word.end() if word else None
