"""Marker pairs: the two texts a discourse marker connects, with the marker taken out (section 4.6).

A pair is two neighbouring EDUs with a known relation: together with the marker they cover their sentence, as in the
paper's extraction, and an annotated corpus has them without parsing it again. What is left must not give the marker
away by its writing: edges lose punctuation, quotes and coordinators ("and so he left" is `so`, "he left"), case is
folded. The order of the two in the text is not kept: Arg2 is always the one the marker belonged to.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from discodvt.discourse.labels import DIRECTIONS, MARKERS, UNKNOWN

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
