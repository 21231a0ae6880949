"""The annotator: text in, EDUs, relations and mentions out, with exact offsets into the given text.

A text of any length goes to the parser in pieces, and what it finds there is put back at its place in the text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, tee

from discodvt.discourse.annotation import Annotation, annotate_sentences, mend_sentences
from discodvt.discourse.languages import load_language
from discodvt.discourse.parsers import Parser, load_parser
from discodvt.discourse.trees import Sentence

BATCH_CHARACTERS = 20_000
PIECE_CHARACTERS = 20_000
_ENDS = re.compile(r"\n[^\S\n]*\n\s*|\u2029\s*|\S{256}(?=\S)")  # a blank line, or a run without any space
_WORD = re.compile(r"\S+")
_LAYOUT = re.compile(r"[^\S ]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_BREAKS = (re.compile(r"\n"), re.compile(r"[.!?][\"'”’)]*\s+"), re.compile(r"\s+"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text as a parser is given it: words with one space between them, and where each character stands."""

    text: str
    place: Sequence[int]


class Annotator:
    """Cuts texts into EDUs and labels the relations between neighbours.

    `parser` is a name (`bundled`, `spacy:NAME`, `stanza`, `corenlp:URL`) that is opened for the language named, or an
    opened parser, which knows its language.
    """

    def __init__(self, parser: str | Parser = "bundled", *, language: str = "english") -> None:
        if isinstance(parser, str):
            parser = load_parser(parser, load_language(language))
        self.parser: Parser = parser

    def annotate(self, text: str) -> Annotation:
        return next(self.annotate_many([text]))

    def annotate_many(self, texts: Iterable[str]) -> Iterator[Annotation]:
        """Annotate texts one after the other, in their order; of a text of any length little is in memory at a time."""
        ahead, texts = tee(texts)
        parsed = self._parsed(ahead)
        for text in texts:
            sentences = iter(parsed.__next__, None)
            yield annotate_sentences(text, sentences, self.parser.scheme, self.parser.language)

    def sentences_many(self, texts: Iterable[str]) -> Iterator[list[Sentence]]:
        """The sentences of each text, with the trees its parser built: what `annotate_many` starts from."""
        ahead, texts = tee(texts)
        parsed = self._parsed(ahead)
        for text in texts:
            yield list(mend_sentences(text, iter(parsed.__next__, None), self.parser.language))

    def _parsed(self, texts: Iterable[str]) -> Iterator[Sentence | None]:
        """The sentences of each text at their offsets in it, and None behind the last of each."""
        for batch in _batches(piece for text in texts for piece in chain(pieces(text), (None,))):
            parsed = iter(self.parser.parse([piece.text for piece in batch if piece is not None]))
            for piece in batch:
                if piece is None:
                    yield None
                else:
                    yield from (_placed(sentence, piece.place) for sentence in next(parsed))
            for _ in parsed:
                raise RuntimeError(f"{self.parser.name} gave more results than pieces")


def _batches(cut: Iterable[Piece | None]) -> Iterator[list[Piece | None]]:
    """Pieces for one call of the parser, whose memory grows with their length: of one text, or of many short ones."""
    batch: list[Piece | None] = []
    size = 0
    for piece in cut:
        length = len(piece.text) if piece is not None else 0
        if size + length > BATCH_CHARACTERS and size:
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += length
    if batch:
        yield batch


def _placed(sentence: Sentence, place: Sequence[int]) -> Sentence:
    """The sentence at its offsets in the text, where the parser counted in a piece of it."""
    if isinstance(place, range) and place.start == 0:
        return sentence
    tree = sentence.tree
    if tree is not None:
        starts = [place[start] for start in tree.starts]
        tree = replace(tree, starts=starts, ends=[place[end - 1] + 1 for end in tree.ends])
    return Sentence(place[sentence.start], place[sentence.end - 1] + 1, tree)


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
