"""spaCy pipelines as parsers: the bundled one, and any other with a dependency parser and Penn tags."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import spacy
from spacy.attrs import DEP, HEAD, IDX, IS_SPACE, LENGTH, LOWER, SENT_START, TAG
from spacy.language import Language
from spacy.tokens import Doc

from discodvt.discourse.annotation import Sentence
from discodvt.discourse.labels import MARKERS
from discodvt.discourse.schemes import scheme_of
from discodvt.discourse.trees import Tree
from discodvt.errors import BadRequest

_COLUMNS = [LOWER, TAG, DEP, HEAD, IDX, LENGTH, SENT_START, IS_SPACE]
_UNUSED = ["ner", "lemmatizer", "attribute_ruler", "textcat", "entity_linker"]


class SpacyParser:
    """A loaded spaCy pipeline."""

    def __init__(self, name: str, source: str) -> None:
        self.name = name
        self.nlp = _load(source)
        if "parser" not in self.nlp.pipe_names:
            raise BadRequest(f"{name}: this spaCy pipeline has no `parser`; it has {', '.join(self.nlp.pipe_names)}")
        self.scheme = scheme_of(self.nlp.get_pipe("parser").labels, source=name)  # type: ignore[attr-defined]
        for _, component in self.nlp.pipeline:  # known for good, or a memory zone would forget them with its words
            for label in getattr(component, "labels", ()):
                self.nlp.vocab.strings.add(label)
        self._markers = np.array([self.nlp.vocab.strings.add(marker) for marker in MARKERS], dtype=np.uint64)

    def parse(self, pieces: Sequence[str]) -> list[list[Sentence]]:
        with self.nlp.memory_zone():  # the vocabulary forgets the words of these pieces again: memory stays flat
            docs = self.nlp.pipe(pieces, batch_size=max(len(pieces), 1))
            return [list(self._sentences(doc)) for doc in docs]

    def _sentences(self, doc: Doc) -> Iterator[Sentence]:
        table = doc.to_array(_COLUMNS)
        table = table[table[:, 7] == 0] if len(doc) else table  # spaces are no words
        if not len(table):
            return
        positions = np.flatnonzero(doc.to_array(IS_SPACE) == 0)
        firsts = np.flatnonzero(table[:, 6].astype(np.int64) == 1)
        bounds = [0, *(int(first) for first in firsts if first > 0), len(table)]
        holds_marker = np.isin(table[:, 0], self._markers)
        begins, lengths = table[:, 4].astype(np.int64), table[:, 5].astype(np.int64)
        ends = begins + lengths
        heads = np.searchsorted(positions, positions + table[:, 3].astype(np.int64))
        for low, high in pairwise(bounds):
            tree = None
            if holds_marker[low:high].any():
                tree = self._tree(table[low:high], heads[low:high] - low, begins[low:high], ends[low:high])
            yield Sentence(int(begins[low]), int(ends[high - 1]), tree)

    def _tree(self, rows: np.ndarray, heads: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> Tree:
        strings = self.nlp.vocab.strings
        links = heads.tolist()
        count = len(links)
        return Tree(
            words=[strings[key] for key in rows[:, 0].tolist()],
            tags=[strings[key] for key in rows[:, 1].tolist()],
            deps=[strings[key] for key in rows[:, 2].tolist()],
            heads=[link if 0 <= link < count and link != token else -1 for token, link in enumerate(links)],
            starts=begins.tolist(),
            ends=ends.tolist(),
        )


def _load(source: str) -> Language:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\[W095\]")  # trained with a nearby spaCy version
            return spacy.load(source, exclude=_UNUSED)
    except OSError as error:
        first = str(error).splitlines()[0]
        raise BadRequest(
            f"spaCy pipeline {source!r} cannot be opened: {first} Install it or give its directory"
        ) from None
