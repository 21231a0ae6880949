"""Where codes occur: in plans (counts, place, neighbours, utilisation), over text (segments) and in repeated phrases.

Code l governs the subwords 2^c l + 1 to 2^c (l + 1) of its story (section 4.6): the latent of a decoder position takes
part in predicting the next subword, so these are the subwords written under it; a code sees a little beyond them on
both sides. Segments tile the text that was kept of the story.

Phrases of a code are the 4-grams of subwords inside its segments that occur there at least twice, and the ten markers
that stand in them, by share (section 4.6, footnote). A segment shorter than four subwords gives the 4-gram that begins
with it. Code utilisation is the number of different codes of a plan divided by its length (appendix A.1).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discodvt.corpus import Example
from discodvt.data.subwords import as_input
from discodvt.data.tokens import Ints as Int32s
from discodvt.data.tokens import Ragged
from discodvt.discourse.labels import MARKERS
from discodvt.evaluation.metric import Floats, Ints

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

PLACES = ("beginning", "middle", "end")  # thirds of a plan


@dataclass(frozen=True, slots=True)
class Occurrences:
    """Every code of every plan, laid end to end: `code[i]` stands at `index[i]` in the plan of `story[i]`."""

    code: Ints
    story: Ints
    index: Ints
    position: Floats  # the middle of its stretch of the story, 0 to 1
    vocabulary: int

    @classmethod
    def of(cls, plans: Ragged, vocabulary: int) -> "Occurrences":
        story = np.repeat(np.arange(len(plans)), plans.lengths)
        index = np.arange(len(story)) - plans.offsets[story]
        return cls(plans.values.astype(np.int64), story, index, (index + 0.5) / plans.lengths[story], vocabulary)

    @property
    def counts(self) -> Ints:
        """How often each code occurs [K]."""
        return np.bincount(self.code, minlength=self.vocabulary)

    def places(self) -> NDArray[np.float64]:
        """Of each code's occurrences, the share in each third of the plan [K, 3]; rows of unused codes are 0."""
        third = np.minimum((self.position * len(PLACES)).astype(np.int64), len(PLACES) - 1)
        found = np.bincount(self.code * len(PLACES) + third, minlength=self.vocabulary * len(PLACES))
        return found.reshape(-1, len(PLACES)) / np.maximum(self.counts, 1)[:, None]

    def mean_positions(self) -> Floats:
        """The mean position of each code [K]."""
        sums = np.bincount(self.code, self.position, minlength=self.vocabulary)
        return np.asarray(sums / np.maximum(self.counts, 1))

    def followed_by(self) -> Ints:
        """How often code b comes right after code a [K, K]."""
        same = self.story[1:] == self.story[:-1]
        pairs = self.code[:-1][same] * self.vocabulary + self.code[1:][same]
        return np.bincount(pairs, minlength=self.vocabulary**2).reshape(self.vocabulary, self.vocabulary)


def usage_of(plans: Ragged, *, vocabulary: int, tokens_per_code: int) -> dict[str, Any]:
    """Codes used and dead, the perplexity of their distribution, what it could save at most, and utilisation."""
    import torch  # `discodvt evaluate` only wants the utilisation of plans

    from discodvt.training.validation import code_usage

    counts = Occurrences.of(plans, vocabulary).counts
    found = code_usage(torch.from_numpy(counts))
    perplexity = found["code_perplexity"]
    return {
        "vocabulary": vocabulary,
        "codes": int(counts.sum()),
        "used": int(found["codes_used"]),
        "dead": np.flatnonzero(counts == 0).tolist(),
        "perplexity": perplexity,
        "ceiling_nats_per_token": float(np.log(perplexity)) / tokens_per_code,  # a code says ln(perplexity) at most
        "utilisation": spread(utilisation(plans)),
    }


BINS = 20


def utilisation(plans: Ragged) -> Floats:
    """Distinct codes of each plan divided by its codes [N]."""
    story = np.repeat(np.arange(len(plans)), plans.lengths)
    vocabulary = int(plans.values.max(initial=0)) + 1
    kinds = np.unique(story * vocabulary + plans.values) // vocabulary
    return np.asarray(np.bincount(kinds, minlength=len(plans)) / np.maximum(plans.lengths, 1))


def spread(values: Floats) -> dict[str, Any]:
    """A distribution over stories in a few numbers: mean, quartiles, and shares of equal bins from 0 to 1."""
    shares, _ = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return {
        "mean": float(values.mean()),
        "quartiles": [low, middle, high],
        "bins": (shares / max(1, len(values))).tolist(),
    }


@dataclass(frozen=True, slots=True)
class Segments:
    """Stories with their subwords `ids[story]` and the character `ends[story]` of each, cut into segments."""

    stories: Sequence[Example]
    ids: Ragged
    ends: Ragged
    tokens_per_code: int

    def span(self, story: int, index: int) -> tuple[int, int]:
        """The characters of a segment; a code that stands for nothing but the story's end has none."""
        ends = self.ends[story]
        first = min(index * self.tokens_per_code, len(ends))
        last = min(first + self.tokens_per_code, len(ends))
        return (int(ends[first - 1]) if first else 0), (int(ends[last - 1]) if last else 0)

    def text(self, story: int, index: int) -> str:
        """The text of a segment, empty before the first and past the last one."""
        start, end = self.span(story, index) if index >= 0 else (0, 0)
        return self.stories[story].story[start:end]

    def phrase(self, story: int, first: int, count: int) -> str:
        """The text of `count` subwords from the subword `first` on."""
        ends = self.ends[story]
        return self.stories[story].story[int(ends[first - 1]) if first else 0 : int(ends[first + count - 1])].strip()


def cut_segments(
    tokenizer: "PreTrainedTokenizerBase", stories: Iterable[Example], *, story_tokens: int, tokens_per_code: int
) -> Segments:
    """Stories that are not blank, as subwords with their places in the text."""
    kept: list[Example] = []
    ids: list[Int32s] = []
    ends: list[Int32s] = []
    texts = (story for story in stories if story.story.strip())
    shift = len(as_input(""))
    while block := list(islice(texts, 1024)):
        encoded = tokenizer.backend_tokenizer.encode_batch(
            [as_input(story.story) for story in block], add_special_tokens=False
        )
        for story, subwords in zip(block, encoded, strict=True):
            kept.append(story)
            ids.append(np.array(subwords.ids[:story_tokens], dtype=np.int32))
            places = np.array([end for _, end in subwords.offsets[:story_tokens]], dtype=np.int32)
            ends.append(np.maximum(places - shift, 0))
    return Segments(kept, Ragged.of(ids), Ragged.of(ends), tokens_per_code)


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
        found_markers = [(match.start(), match[1].lower()) for match in _MARKER.finditer(story.story)]
        places = np.searchsorted(segments.ends[row], [start for start, _ in found_markers], side="right")
        for place, (_, marker) in zip(places, found_markers, strict=True):
            if place < len(segments.ends[row]):
                found[segments.ids.offsets[row] + place] = MARKERS.index(marker)
    return found
