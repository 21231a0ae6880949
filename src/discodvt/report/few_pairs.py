"""Which accuracies rest on too few marker pairs to be believed.

One pair of a marker makes an accuracy of 0 or 100% with no spread at all, so an interval of no width and a certain
t-test. A macro-accuracy weighs each of its markers alike, so its rarest marker decides. How many pairs a marker had
stands in the signature of its accuracy.
"""

import re
from collections.abc import Mapping
from typing import Any

from discodvt.discourse import CATEGORIES, MARKERS
from discodvt.evaluation.discourse.accuracy import FEWEST_PAIRS

NOTE = f"† fewer than {FEWEST_PAIRS} pairs of some marker: neither best nor starred."


def few_pairs(name: str, scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether `name` is an accuracy over a marker with too few pairs; `scores` are all of its system."""
    kind, _, of = name.partition("-")
    if kind != "accuracy":
        return False
    markers = CATEGORIES.get(of, (of,)) if of else MARKERS
    counts = (_pairs(scores[f"accuracy-{marker}"]) for marker in markers if f"accuracy-{marker}" in scores)
    return any(count is not None and count < FEWEST_PAIRS for count in counts)


def _pairs(score: Mapping[str, Any]) -> int | None:
    found = re.search(r"\|pairs:(\d+)", score["signature"])
    return int(found[1]) if found else None
