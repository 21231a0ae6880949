"""The annotator: text in, EDUs, relations and mentions out, with exact offsets into the given text."""

from collections.abc import Iterable, Iterator
from itertools import islice

from discodvt.discourse.annotation import Annotation, Sentence, annotate_sentences
from discodvt.discourse.parsers import Parser, load_parser, pieces
from discodvt.discourse.trees import Tree

BATCH_CHARACTERS = 200_000


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
        parsed = iter(self.parser.parse([piece for parts in cut for _, piece in parts]))
        annotations = []
        for text, parts in zip(texts, cut, strict=True):
            sentences = [
                _shifted(sentence, offset)
                for (offset, _), found in zip(parts, islice(parsed, len(parts)), strict=True)
                for sentence in found
            ]
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


def _shifted(sentence: Sentence, offset: int) -> Sentence:
    if not offset:
        return sentence
    tree = sentence.tree
    if tree is not None:
        tree = Tree(
            words=tree.words,
            tags=tree.tags,
            deps=tree.deps,
            heads=tree.heads,
            starts=[start + offset for start in tree.starts],
            ends=[end + offset for end in tree.ends],
        )
    return Sentence(sentence.start + offset, sentence.end + offset, tree)
