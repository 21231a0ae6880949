"""`discodvt annotate --selftest`: the annotator's score against gold explicit connectives (UD English GUM).

CoNLL-U documents carry the relations in MISC as `PDTB=Explicit:sense:connective:connective tokens:arg1 tokens:arg2
tokens`, where tokens are numbered through the document; the text is the tokens joined by SpaceAfter. Counted are
explicit connectives of exactly one token equal to a marker of the language; a hit on any other token, be it part of a
longer connective (`so that`), is an error. Argument F1 pools the tokens of all connectives found by both sides.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from discodvt.corpus.formats import read_lines
from discodvt.discourse.annotation import Annotation, Span, annotate_sentences
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.labels import MARKERS
from discodvt.discourse.language import Language
from discodvt.discourse.languages import ENGLISH, load_language
from discodvt.discourse.trees import Sentence, Tree, scheme_of
from discodvt.errors import BadRequest


@dataclass(frozen=True, slots=True)
class GoldConnective:
    """An explicit connective of one token equal to a marker, with its argument tokens; `token` counts from 0."""

    marker: str
    token: int
    arg1: frozenset[int]
    arg2: frozenset[int]


@dataclass(slots=True)
class GoldDocument:
    """A document's text, its token offsets, gold trees and gold connectives."""

    text: str = ""
    tokens: list[tuple[int, int]] = field(default_factory=list)
    sentences: list[Sentence] = field(default_factory=list)
    connectives: list[GoldConnective] = field(default_factory=list)


def read_conllu(path: Path, language: Language = ENGLISH) -> list[GoldDocument]:
    """The documents of a CoNLL-U file."""
    documents: list[GoldDocument] = []
    rows: list[list[str]] = []
    lines = (line.content for line in read_lines(path))
    for number, line in enumerate(chain(lines, [""]), start=1):
        if line.startswith("# newdoc") or (not documents and line):
            documents.append(GoldDocument())
        if line.startswith("#"):
            continue
        if line:
            cells = line.split("\t")
            if len(cells) != 10:
                raise BadRequest(f"{path}:{number}: {len(cells)} columns, expected the 10 of CoNLL-U")
            rows.append(cells)
        elif rows:
            _add_sentence(documents[-1], rows, language)
            rows = []
    if not any(document.tokens for document in documents):
        raise BadRequest(f"{path}: no sentences; give a CoNLL-U file")
    return documents


def _add_sentence(document: GoldDocument, rows: list[list[str]], language: Language) -> None:
    start = len(document.text)
    words: list[tuple[str, int, int]] = []
    until, glued = 0, False  # a multiword token spells its words without spaces between them
    for cells in rows:
        if "-" in cells[0]:
            until, glued = int(cells[0].split("-")[1]), "SpaceAfter=No" in cells[9]
        elif "." not in cells[0]:
            begin = len(document.text)
            document.text += cells[1]
            words.append((cells[1], begin, len(document.text)))
            number = int(cells[0])
            inside = number < until or (number == until and glued)
            if not inside and "SpaceAfter=No" not in cells[9]:
                document.text += " "
    real = [cells for cells in rows if cells[0].isdigit()]
    tree = Tree(
        words=[word.lower() for word, _, _ in words],
        tags=[cells[4] for cells in real],
        deps=[cells[7] for cells in real],
        heads=[int(cells[6]) - 1 for cells in real],
        starts=[begin for _, begin, _ in words],
        ends=[end for _, _, end in words],
        language=language,
    )
    document.sentences.append(Sentence(start, words[-1][2], tree))
    document.tokens.extend((begin, end) for _, begin, end in words)
    for cells in real:
        document.connectives.extend(_connectives(cells[9], language))


def _connectives(misc: str, language: Language) -> Iterator[GoldConnective]:
    for entry in misc.split("|"):
        if not entry.startswith("PDTB="):
            continue
        for reading in entry.removeprefix("PDTB=").split(";"):
            kind, _, connective, at, arg1, arg2 = reading.split(":")[:6]
            tokens = _numbers(at)
            marker = language.markers.get(connective.lower())
            if kind == "Explicit" and marker is not None and len(tokens) == 1:
                yield GoldConnective(marker.relation, min(tokens), _numbers(arg1), _numbers(arg2))


def _numbers(text: str) -> frozenset[int]:
    """`3-5,9` as token positions counted from 0."""
    found: set[int] = set()
    for part in text.split(","):
        if part != "_":
            low, _, high = part.partition("-")
            found.update(range(int(low) - 1, int(high or low)))
    return frozenset(found)


@dataclass(slots=True)
class Tally:
    """Counts of what both sides have, what only we found, what only gold has."""

    both: int = 0
    ours: int = 0
    gold: int = 0

    def add(self, ours: Iterable[int], gold: Iterable[int]) -> None:
        mine, theirs = set(ours), set(gold)
        self.both += len(mine & theirs)
        self.ours += len(mine)
        self.gold += len(theirs)

    def as_dict(self) -> dict[str, float]:
        precision = self.both / self.ours if self.ours else 0.0
        recall = self.both / self.gold if self.gold else 0.0
        f1 = 2 * self.both / (self.ours + self.gold) if self.ours + self.gold else 0.0
        return {"precision": precision, "recall": recall, "f1": f1}


@dataclass(slots=True)
class Score:
    """Marker and argument tallies over documents."""

    markers: dict[str, Tally] = field(default_factory=lambda: {marker: Tally() for marker in MARKERS})
    arg1: Tally = field(default_factory=Tally)
    arg2: Tally = field(default_factory=Tally)

    def add(self, annotation: Annotation, document: GoldDocument) -> None:
        position = {start: index for index, (start, _) in enumerate(document.tokens)}
        gold = {connective.token: connective for connective in document.connectives}
        found = {}
        for number, mention in enumerate(annotation.mentions):
            # a token the parser cut differently can match no gold token: it counts as an error of its own
            found[position.get(mention.start, -1 - number)] = mention
        for marker, tally in self.markers.items():
            tally.add(
                (at for at, mention in found.items() if mention.marker == marker),
                (at for at, connective in gold.items() if connective.marker == marker),
            )
        for at in found.keys() & gold.keys():
            if found[at].marker == gold[at].marker:
                self._add_arguments(found[at].arg1, found[at].arg2, gold[at], document.tokens)

    def _add_arguments(self, arg1: Span, arg2: Span, gold: GoldConnective, tokens: Sequence[Span]) -> None:
        second = set(_tokens_in(arg2, tokens)) - {gold.token}
        first = set(_tokens_in(arg1, tokens)) - {gold.token}
        # the span of an argument that the other interrupts runs over it
        first, second = (first - second, second) if len(first) > len(second) else (first, second - first)
        self.arg1.add(first, gold.arg1)
        self.arg2.add(second, gold.arg2)

    def as_dict(self) -> dict[str, Any]:
        total = Tally()
        for tally in self.markers.values():
            total.both += tally.both
            total.ours += tally.ours
            total.gold += tally.gold
        return total.as_dict() | {
            "arg1_f1": self.arg1.as_dict()["f1"],
            "arg2_f1": self.arg2.as_dict()["f1"],
            "markers": {
                marker: tally.as_dict() | {"gold": tally.gold, "found": tally.ours}
                for marker, tally in self.markers.items()
            },
        }


def _tokens_in(span: Span, tokens: Sequence[Span]) -> Iterable[int]:
    return (index for index, (start, end) in enumerate(tokens) if start >= span[0] and end <= span[1])


def selftest(path: Path, *, parser: str = "bundled", language: str = "english") -> dict[str, Any]:
    """Scores under `gold_trees` (the rules alone) and `raw_text` (rules and parser together)."""
    spoken = load_language(language)
    documents = read_conllu(path, spoken)
    if not any(document.connectives for document in documents):
        raise BadRequest(
            f"{path}: no explicit connectives (PDTB=Explicit:... in the last column); nothing to score against"
        )
    trees = [sentence.tree for document in documents for sentence in document.sentences if sentence.tree is not None]
    scheme = scheme_of({label for tree in trees for label in tree.deps}, source=str(path))
    on_trees, on_text = Score(), Score()
    annotations = Annotator(parser, language=language).annotate_many(document.text for document in documents)
    for document, annotation in zip(documents, annotations, strict=True):
        on_trees.add(annotate_sentences(document.text, document.sentences, scheme, spoken), document)
        on_text.add(annotation, document)
    return {"gold_trees": on_trees.as_dict(), "raw_text": on_text.as_dict()}
