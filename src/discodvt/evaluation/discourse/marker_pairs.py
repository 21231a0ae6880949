"""Marker pairs: the two texts a discourse marker connects, with the marker taken out (section 4.6), and their sources.

A pair is two neighbouring EDUs with a known relation: together with the marker they cover their sentence, as in the
paper's extraction, and an annotated corpus has them without parsing it again. What is left must not give the marker
away by its writing: edges lose punctuation, quotes and coordinators ("and so he left" is `so`, "he left"), case is
folded. The order of the two in the text is not kept: Arg2 is always the one the marker belonged to.

Sources are annotated splits (nothing is parsed), stories of any kind (annotated here), and files of pairs such as
DisSent's (lines of s1, s2 and marker, as TSV or JSONL).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from discodvt.corpus import ANNOTATED_SCHEMA, columns_of, read_rows
from discodvt.corpus.formats import Line, json_object, read_lines
from discodvt.corpus.preparation import replace_surrogates
from discodvt.discourse import Annotator
from discodvt.discourse.labels import DIRECTIONS, MARKERS, UNKNOWN
from discodvt.discourse.parsers import Parser
from discodvt.errors import BadRequest
from discodvt.evaluation.matching import StoryLine, read_story_lines, reference_file
from discodvt.evaluation.metric import Ints

_EDGES = " \t\n\r\"'“”‘’«»()[]{}*_`—–-,;:."
_COORDINATOR = r"(?:and|but|or|yet|nor)"
_LEADING = re.compile(rf"{_COORDINATOR}\b[\s,]*")
_TRAILING = re.compile(rf"[\s,;:—–-]+{_COORDINATOR}$")


class Pair(NamedTuple):
    """Two texts and the marker that stood between them."""

    arg1: str
    arg2: str
    marker: str


def pairs_in(story: str, edus: Sequence[tuple[int, int]], relations: Sequence[str]) -> Iterator[Pair]:
    """The marker pairs of an annotated story; a pair with nothing left on one side is none."""
    for place, label in enumerate(relations):
        if label == UNKNOWN:
            continue
        marker, _, order = label.partition("_")
        first, second = (story[slice(*edus[at])] for at in (place, place + 1))
        arg1, arg2 = (first, second) if order == DIRECTIONS[0] else (second, first)
        pair = Pair(bare(arg1), bare(without_marker(arg2, marker)), marker)
        if pair.arg1 and pair.arg2:
            yield pair


def without_marker(text: str, marker: str) -> str:
    """The text without its first `marker`: Arg2's EDU starts with it, or has it before any other of the same word."""
    return _word(marker).sub(" ", text, count=1)


def bare(text: str) -> str:
    """Lower case, single spaces, and nothing at the edges that belongs to how two clauses are joined."""
    text = " ".join(text.lower().split()).strip(_EDGES)
    text = _TRAILING.sub("", _LEADING.sub("", text, count=1))
    return text.strip(_EDGES)


@cache
def _word(marker: str) -> re.Pattern[str]:
    if marker not in MARKERS:
        raise ValueError(f"{marker!r} is none of the markers {', '.join(MARKERS)}")
    return re.compile(rf"\s*\b{marker}\b[\s,]*", re.IGNORECASE)


Progress = Callable[[int, int], None]  # done, in all


@dataclass(frozen=True, slots=True)
class PairedStory:
    """A story and the marker pairs in it."""

    record: StoryLine
    pairs: list[Pair]


def read_paired(
    path: Path, *, split: str, parser: str | Parser, progress: Progress = lambda done, total: None
) -> list[PairedStory]:
    """Every story of a file or of a corpus directory's split, with its pairs; parsed only where it is not annotated."""
    file = reference_file(path, split)
    if file.suffix == ".parquet" and _annotated(file):
        return list(annotated_stories(file))
    records = read_story_lines(file)
    stories = []
    for story, annotation in zip(records, Annotator(parser).annotate_many(each.story for each in records), strict=True):
        stories.append(PairedStory(story, list(pairs_in(story.story, annotation.edus, annotation.relations))))
        progress(len(stories), len(records))
    return stories


def annotated_stories(file: Path) -> Iterator[PairedStory]:
    """Stream the stories of an annotated split file."""
    for number, row in enumerate(read_rows(file, ANNOTATED_SCHEMA), start=1):
        where = f"{file} row {number}"
        edus = [(edu["start"], edu["end"]) for edu in row["edus"]]
        if len(row["relations"]) != max(0, len(edus) - 1):
            raise BadRequest(f"{where}: {len(edus)} EDUs with {len(row['relations'])} relations; annotate it again")
        record = StoryLine(where, row["id"], row["prompt"], row["story"])
        yield PairedStory(record, list(pairs_in(row["story"], edus, row["relations"])))


def annotated_pairs(file: Path) -> Iterator[Pair]:
    """Stream the pairs of an annotated split file; a corpus without annotations is refused."""
    if not _annotated(file):
        raise BadRequest(f"{file}: no annotations; run `discodvt annotate` on its corpus first")
    return (pair for story in annotated_stories(file) for pair in story.pairs)


def pair_file(path: Path, *, drop_unknown: bool = False) -> Iterator[Pair]:
    """Stream the pairs of a TSV or JSONL file (or a packed one); another marker than the ten is an error."""
    as_json = ".jsonl" in path.suffixes
    for line in read_lines(path):
        if not line.content.strip():
            continue
        first, second, marker = (_json if as_json else _tsv)(path, line)
        if marker not in MARKERS:
            if drop_unknown:
                continue
            raise BadRequest(
                f"{path}:{line.number}: marker {marker!r} is none of {', '.join(MARKERS)}; "
                "remove the line, or leave all such lines out with `drop_unknown`",
                parameter="drop_unknown",
            )
        pair = Pair(bare(first), bare(second), marker)
        if pair.arg1 and pair.arg2:
            yield pair


def _annotated(file: Path) -> bool:
    return set(ANNOTATED_SCHEMA.names) <= set(columns_of(file))


def _tsv(path: Path, line: Line) -> tuple[str, str, str]:
    fields = line.content.split("\t")
    if len(fields) != 3:
        raise BadRequest(f"{path}:{line.number}: found {len(fields)} columns, expected s1, s2, marker split by tabs")
    return fields[0], fields[1], fields[2].strip().lower()


def _json(path: Path, line: Line) -> tuple[str, str, str]:
    record = json_object(line.content, f"{path}:{line.number}")
    values = [record.get(name) for name in ("s1", "s2", "marker")]
    texts = [replace_surrogates(value) for value in values if isinstance(value, str)]
    if len(texts) != 3:
        raise BadRequest(f'{path}:{line.number}: expected an object with texts "s1", "s2" and "marker"')
    return texts[0], texts[1], texts[2].strip().lower()


Swap: TypeAlias = Literal["none", "any", "same-marker"]


def swapped(pairs: Sequence[Pair], how: Swap, *, seed: int) -> list[Pair]:
    """Each pair with the Arg2 of another one, of any marker or of the same one."""
    if how == "none":
        return list(pairs)
    random = np.random.default_rng(seed)
    group = np.array([MARKERS.index(pair.marker) if how == "same-marker" else 0 for pair in pairs])
    donor: Ints = np.arange(len(pairs))
    for number in np.unique(group):
        members = random.permutation(np.flatnonzero(group == number))
        donor[members] = np.roll(members, 1)
    return [pair._replace(arg2=pairs[other].arg2) for pair, other in zip(pairs, donor, strict=True)]
