"""The phrases a code repeats, and the markers in them (section 4.6 and its footnote).

For each code: the 4-grams of subwords inside its segments that occur there at least twice, and the ten markers that
stand in them, by share. A segment shorter than four subwords gives the 4-gram that begins with it.
"""

import re
from dataclasses import dataclass

import numpy as np

from discodvt.discourse.labels import MARKERS
from discodvt.evaluation.arrays import Ints
from discodvt.evaluation.codes.segments import Segments
from discodvt.evaluation.codes.usage import Occurrences

ORDER = 4
REPEATED = 2
_MARKER = re.compile(rf"\b({'|'.join(MARKERS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Phrases:
    """Repeated 4-grams, those of one code together and the commonest first; and the markers of every code."""

    code: Ints  # [G]
    count: Ints  # [G]
    text: list[str]
    markers: Ints  # [K, 10] how often each marker stands in a repeated 4-gram of a code

    def of(self, code: int, most: int) -> list[tuple[str, int]]:
        """The commonest 4-grams of a code."""
        first, last = np.searchsorted(self.code, [code, code + 1])
        rows = range(first, min(last, first + most))
        return [(self.text[row], int(self.count[row])) for row in rows]


def find_phrases(occurrences: Occurrences, segments: Segments) -> Phrases:
    """Count the 4-grams of every code; the flat positions of subwords are those of `segments.ids`."""
    ids, reach = segments.ids, np.arange(ORDER)
    starts = ids.offsets[occurrences.story] + occurrences.index * segments.tokens_per_code  # [C]
    places = starts[:, None] + np.arange(max(1, segments.tokens_per_code - ORDER + 1))  # [C, 4-grams of a segment]
    whole = places + ORDER <= ids.offsets[occurrences.story + 1][:, None]
    place = places[whole]
    code = np.broadcast_to(occurrences.code[:, None], places.shape)[whole]
    gram = _numbered(ids.values[place[:, None] + reach])
    found, first, which, count = np.unique(
        code * (gram.max(initial=0) + 1) + gram, return_index=True, return_inverse=True, return_counts=True
    )
    repeated = np.flatnonzero(count >= REPEATED)
    order = repeated[np.lexsort((found[repeated], -count[repeated], code[first[repeated]]))]
    story = np.searchsorted(ids.offsets, place[first[order]], side="right") - 1
    texts = [
        segments.phrase(int(row), int(at - ids.offsets[row]), ORDER)
        for row, at in zip(story, place[first[order]], strict=True)
    ]
    held = (count >= REPEATED)[which]
    inside = np.unique(code[held][:, None] * len(ids.values) + place[held][:, None] + reach)  # a subword counts once
    owner, subword = np.divmod(inside, max(1, len(ids.values)))
    marker = _markers_at(segments)[subword]
    counted = np.bincount((owner * len(MARKERS) + marker)[marker >= 0], minlength=occurrences.vocabulary * len(MARKERS))
    return Phrases(code[first[order]], count[order], texts, counted.reshape(-1, len(MARKERS)))


def _numbered(grams: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> Ints:
    """Equal rows [N, 4] get equal numbers; halves are ranked first, so that no product overflows."""
    ranks = grams.astype(np.int64)
    while ranks.shape[1] > 1:
        joined = ranks[:, ::2] * (ranks.max(initial=0) + 1) + ranks[:, 1::2]
        ranks = np.unique(joined, return_inverse=True)[1].reshape(joined.shape)
    return ranks[:, 0]


def _markers_at(segments: Segments) -> Ints:
    """For every subword the marker that begins in it, or -1."""
    found = np.full(len(segments.ids.values), -1, dtype=np.int64)
    for row, story in enumerate(segments.stories):
        spoken = [(match.start(), match[1].lower()) for match in _MARKER.finditer(story.story)]
        places = np.searchsorted(segments.ends[row], [start for start, _ in spoken], side="right")
        for place, (_, marker) in zip(places, spoken, strict=True):
            if place < len(segments.ends[row]):
                found[segments.ids.offsets[row] + place] = MARKERS.index(marker)
    return found
