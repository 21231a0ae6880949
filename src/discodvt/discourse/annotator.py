"""The annotator: text in, EDUs, relations and mentions out, with exact offsets into the given text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, tee

from discodvt.discourse.annotation import Annotation, Sentence, annotate_sentences
from discodvt.discourse.parsers import Parser, Piece, load_parser, pieces

BATCH_CHARACTERS = 20_000


class Annotator:
    """Cuts texts into EDUs and labels the relations between neighbours.

    `parser` is a name (`bundled`, `spacy:NAME`, `stanza`, `corenlp:URL`) or an opened parser.
    """

    def __init__(self, parser: str | Parser = "bundled") -> None:
        self.parser: Parser = load_parser(parser) if isinstance(parser, str) else parser

    def annotate(self, text: str) -> Annotation:
        return next(self.annotate_many([text]))

    def annotate_many(self, texts: Iterable[str]) -> Iterator[Annotation]:
        """Annotate texts one after the other, in their order; of a text of any length little is in memory at a time."""
        ahead, texts = tee(texts)
        parsed = self._parsed(ahead)
        for text in texts:
            yield annotate_sentences(text, iter(parsed.__next__, None), self.parser.scheme)

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
