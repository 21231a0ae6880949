"""Parsers behind one interface: texts in, sentences with trees out. `load_parser` opens the one a user names.

bundled        the spaCy pipeline that ships with the package (UD v2)
spacy:NAME     any installed spaCy pipeline, or a directory of one
stanza         Stanza's English pipeline (its models must be installed)
corenlp:URL    a running CoreNLP server
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Protocol

from discodvt.discourse.annotation import Sentence
from discodvt.discourse.schemes import Scheme
from discodvt.errors import BadRequest

PIECE_CHARACTERS = 20_000
_ENDS = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*|\S{256}(?=\S)")  # a blank line, or a run without any space
_WORD = re.compile(r"\S+")
_LAYOUT = re.compile(r"[^\S ]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BREAKS = (re.compile(r"\n"), re.compile(r"[.!?][\"'”’)]*\s+"), re.compile(r"\s+"))


class Parser(Protocol):
    """What the annotator needs of a parser."""

    name: str
    scheme: Scheme

    def parse(self, pieces: Sequence[str]) -> Iterable[list[Sentence]]:
        """The sentences of each piece; a sentence without any marker may come without its tree."""
        ...


def load_parser(name: str = "bundled") -> Parser:
    """Open the parser a user named."""
    kind, _, rest = name.partition(":")
    if kind in ("bundled", "spacy") and (kind == "spacy") == bool(rest):
        from discodvt.discourse.spacy_parser import SpacyParser

        return SpacyParser(name, str(bundled_path()) if kind == "bundled" else rest)
    if name == "stanza":
        from discodvt.discourse.stanza_parser import StanzaParser

        return StanzaParser.open()
    if kind == "corenlp" and rest:
        from discodvt.discourse.corenlp_parser import CoreNlpParser

        return CoreNlpParser(rest)
    raise BadRequest(f"unknown parser {name!r}; use bundled, spacy:NAME, stanza or corenlp:URL")


def bundled_path() -> Path:
    """Where the parser that ships with the package lies."""
    return Path(str(files("discodvt") / "assets" / "parser"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text as a parser is given it: words with one space between them, and where each character stands."""

    text: str
    place: Sequence[int]


def pieces(text: str, *, size: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """A text in pieces of bounded size, cut at blank lines, and where that is too long at the best break.

    A blank line ends a sentence, other white space is layout: parsers learned from words with one space between them.
    What lies in a piece never depends on other texts, so a story is parsed the same alone or in any batch. An endless
    run without a space is cut too: tokenisers take quadratic time on it.
    """
    text = _SURROGATE.sub("\ufffd", text)  # one character for one: offsets stay true
    start = 0
    for end in chain((match.end() for match in _ENDS.finditer(text)), (len(text),)):
        for low, high in _bounded(text, start, end, size):
            words = [match.span() for match in _WORD.finditer(text, low, high)]
            if words:
                yield _piece(text, words)
        start = end


def _bounded(text: str, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    while end - start > size:
        window = text[start : start + size]
        ends = (max((match.end() for match in pattern.finditer(window, size // 2)), default=0) for pattern in _BREAKS)
        length = next((end for end in ends if end), size)
        yield start, start + length
        start += length
    yield start, end


def _piece(text: str, words: list[tuple[int, int]]) -> Piece:
    start, end = words[0][0], words[-1][1]
    if sum(high - low for low, high in words) + len(words) - 1 == end - start and not _LAYOUT.search(text, start, end):
        return Piece(text[start:end], range(start, end))
    place: list[int] = []
    for low, high in words:
        place.extend(range(low, high + 1))  # the word, and the white space after it as one space
    return Piece(" ".join(text[low:high] for low, high in words), place[:-1])
