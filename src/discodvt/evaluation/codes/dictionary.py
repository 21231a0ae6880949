"""The code dictionary: what each code stands for, told by the stories it occurs in."""

from typing import Any

import numpy as np

from discodvt.data.tokens import Tokens
from discodvt.discourse.labels import LABELS, MARKERS, UNKNOWN
from discodvt.evaluation.arrays import Floats, Ints
from discodvt.evaluation.codes.phrases import find_phrases
from discodvt.evaluation.codes.segments import Segments
from discodvt.evaluation.codes.usage import PLACES, Occurrences

GRAMS, TOP, EXAMPLES = 5, 3, 3
Entry = dict[str, Any]


def describe_codes(occurrences: Occurrences, segments: Segments, tokens: Tokens, embedding: Floats) -> list[Entry]:
    """An entry for every code in use, the commonest first; `embedding` [K, E] tells which codes are near."""
    phrases = find_phrases(occurrences, segments)
    relations = relation_counts(occurrences, tokens, segments.tokens_per_code)
    counts, places, positions = occurrences.counts, occurrences.places(), occurrences.mean_positions()
    follows = occurrences.followed_by()
    closeness = _cosines(embedding, counts > 0)
    by_code = np.argsort(occurrences.code, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(counts)])
    entries = []
    for code in np.argsort(-counts, kind="stable")[: int((counts > 0).sum())].tolist():
        entries.append(
            {
                "code": code,
                "count": int(counts[code]),
                "share": _rounded(counts[code] / counts.sum()),
                "grams": [{"text": text, "count": count} for text, count in phrases.of(code, GRAMS)],
                "markers": _top(phrases.markers[code], MARKERS, "marker"),
                "relations": _top(relations[code], LABELS[: LABELS.index(UNKNOWN)], "relation"),
                "place": {name: _rounded(share) for name, share in zip(PLACES, places[code], strict=True)}
                | {"mean": _rounded(positions[code])},
                "next": _neighbours(follows[code], follows.sum(axis=0)),
                "previous": _neighbours(follows[:, code], follows.sum(axis=1)),
                "nearest": [
                    {"code": int(other), "cosine": _rounded(closeness[code, other])}
                    for other in np.argsort(-closeness[code], kind="stable")[:TOP]
                    if np.isfinite(closeness[code, other])
                ],
                "examples": _examples(by_code[bounds[code] : bounds[code + 1]], occurrences, segments),
            }
        )
    return entries


def relation_counts(occurrences: Occurrences, tokens: Tokens, tokens_per_code: int) -> Ints:
    """How often an EDU joined to the one before it by each marker label begins in a code's segment [K, 20]."""
    labels = LABELS.index(UNKNOWN)
    found = np.zeros((occurrences.vocabulary, labels), dtype=np.int64)
    first = np.searchsorted(occurrences.story, np.arange(len(tokens)))  # where each plan begins
    for story in range(len(tokens)):
        given = tokens.relations[story]
        joined = np.flatnonzero((given >= 0) & (given < labels))
        begins = tokens.edus[story][joined + 1] - 1  # the EDU's first subword, counted from 0 without `<s>`
        codes = occurrences.code[first[story] + begins // tokens_per_code]
        np.add.at(found, (codes, given[joined]), 1)
    return found


def segmented_stories(occurrences: Occurrences, segments: Segments, count: int) -> list[Entry]:
    """Some stories of the split, evenly spaced, each as its segments: [code, text]."""
    first = np.searchsorted(occurrences.story, np.arange(len(segments.stories) + 1))
    chosen = np.unique(np.linspace(0, len(segments.stories) - 1, num=count).astype(np.int64)).tolist()
    return [
        {
            "id": segments.stories[row].id,
            "prompt": segments.stories[row].prompt,
            "segments": [
                [int(code), segments.text(row, index)]
                for index, code in enumerate(occurrences.code[first[row] : first[row + 1]])
            ],
        }
        for row in chosen
    ]


def _top(counts: Ints, names: tuple[str, ...], called: str) -> list[Entry]:
    """The commonest few, with their share of all."""
    best = [number for number in np.argsort(-counts, kind="stable")[:TOP] if counts[number]]
    whole = counts.sum()
    return [{called: names[n], "count": int(counts[n]), "share": _rounded(counts[n] / whole)} for n in best]


def _neighbours(counts: Ints, everywhere: Ints) -> list[Entry]:
    """The commonest neighbours on one side; lift is their share here over their share beside any code."""
    whole, total = counts.sum(), everywhere.sum()
    best = [other for other in np.argsort(-counts, kind="stable")[:TOP] if counts[other]]
    return [
        {
            "code": int(other),
            "share": _rounded(counts[other] / whole),
            "lift": _rounded(counts[other] * total / (whole * everywhere[other])),
        }
        for other in best
    ]


def _examples(rows: Ints, occurrences: Occurrences, segments: Segments) -> list[Entry]:
    """Occurrences spread over the split, each with the text before and after."""
    begins = occurrences.index[rows] * segments.tokens_per_code
    spoken = rows[
        begins < segments.ids.lengths[occurrences.story[rows]]
    ]  # not where nothing but the story's end is left
    return [
        {
            "id": segments.stories[int(occurrences.story[row])].id,
            "before": _text(row, occurrences, segments, -1),
            "text": _text(row, occurrences, segments),
            "after": _text(row, occurrences, segments, 1),
        }
        for row in spoken[_spread(len(spoken))].tolist()
    ]


def _text(row: int, occurrences: Occurrences, segments: Segments, step: int = 0) -> str:
    return segments.text(int(occurrences.story[row]), int(occurrences.index[row]) + step)


def _spread(count: int) -> Ints:
    """A few numbers below `count`, evenly spaced and away from the ends; none below 0."""
    few = min(EXAMPLES, count)
    return ((np.arange(few) + 0.5) * count / max(few, 1)).astype(np.int64)


def _cosines(embedding: Floats, used: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """How alike the vectors of codes are [K, K]; a code itself and codes not in use are left out (-inf)."""
    unit = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    cosines[:, ~used] = -np.inf
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(cosines)


def _rounded(value: Any) -> float:
    return round(float(value), 4)
