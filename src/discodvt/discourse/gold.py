"""CoNLL-U documents with gold explicit connectives (UD English GUM), read to measure the annotator.

The relations stand in MISC as `PDTB=Explicit:sense:connective:connective tokens:arg1 tokens:arg2 tokens`, where tokens
are numbered through the document. The text is the tokens joined by SpaceAfter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from discodvt.discourse.annotation import Sentence
from discodvt.discourse.labels import MARKERS
from discodvt.discourse.trees import Tree
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


def read_conllu(path: Path) -> list[GoldDocument]:
    """The documents of a CoNLL-U file."""
    documents: list[GoldDocument] = []
    rows: list[list[str]] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a CoNLL-U file") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path}: not UTF-8 at byte {error.start}; give a CoNLL-U file") from None
    for number, line in enumerate([*lines, ""], start=1):
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
            _add_sentence(documents[-1], rows)
            rows = []
    if not any(document.tokens for document in documents):
        raise BadRequest(f"{path}: no sentences; give a CoNLL-U file")
    return documents


def _add_sentence(document: GoldDocument, rows: list[list[str]]) -> None:
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
    )
    document.sentences.append(Sentence(start, words[-1][2], tree))
    document.tokens.extend((begin, end) for _, begin, end in words)
    for cells in real:
        document.connectives.extend(_connectives(cells[9]))


def _connectives(misc: str) -> Iterator[GoldConnective]:
    for entry in misc.split("|"):
        if not entry.startswith("PDTB="):
            continue
        for reading in entry.removeprefix("PDTB=").split(";"):
            kind, _, connective, at, arg1, arg2 = reading.split(":")[:6]
            tokens = _numbers(at)
            if kind == "Explicit" and connective.lower() in MARKERS and len(tokens) == 1:
                yield GoldConnective(connective.lower(), min(tokens), _numbers(arg1), _numbers(arg2))


def _numbers(text: str) -> frozenset[int]:
    """`3-5,9` as token positions counted from 0."""
    found: set[int] = set()
    for part in text.split(","):
        if part != "_":
            low, _, high = part.partition("-")
            found.update(range(int(low) - 1, int(high or low)))
    return frozenset(found)
