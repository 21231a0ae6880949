"""The annotator: text in, EDUs, relations and mentions out, with exact offsets into the given text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from discodvt.discourse.annotation import Annotation, Sentence, annotate_sentences
from discodvt.discourse.parsers import Parser, load_parser, pieces

BATCH_CHARACTERS = 40_000


class Annotator:
    """Cuts texts into EDUs and labels the relations between neighbours.

    `parser` is a name (`bundled`, `spacy:NAME`, `stanza`, `corenlp:URL`) or an opened parser.
    """

    def __init__(self, parser: str | Parser = "bundled") -> None:
        self.parser: Parser = load_parser(parser) if isinstance(parser, str) else parser

    def annotate(self, text: str) -> Annotation:
        return next(self.annotate_many([text]))

    def annotate_many(self, texts: Iterable[str]) -> Iterator[Annotation]:
        """Annotate texts one after the other, parsed in batches of bounded size; the order is kept."""
        for batch in _batches(texts):
            yield from self._annotate_batch(batch)

    def _annotate_batch(self, texts: list[str]) -> list[Annotation]:
        cut = [list(pieces(text)) for text in texts]
        parsed = iter(self.parser.parse([piece.text for parts in cut for piece in parts]))
        annotations = []
        for text, parts in zip(texts, cut, strict=True):
            found = zip(parts, islice(parsed, len(parts)), strict=True)
            sentences = [_placed(sentence, piece.place) for piece, some in found for sentence in some]
            annotations.append(annotate_sentences(text, sentences, self.parser.scheme))
        for _ in parsed:  # let the parser finish its batch
            raise RuntimeError(f"{self.parser.name} gave more results than pieces")
        return annotations


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
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
