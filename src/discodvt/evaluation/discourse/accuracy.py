"""How often the classifier finds the marker that was taken out: by marker, by category, overall (section 4.6).

Macro-accuracy is the mean over the markers of a category, however rare each of them is; overall, over all markers.
"""

import numpy as np

from discodvt.discourse.labels import CATEGORIES, MARKERS
from discodvt.evaluation.arrays import Flags, Floats
from discodvt.evaluation.discourse.pooled import Pooled

FEWEST_PAIRS = 20  # of a marker: fewer give an accuracy without spread, and a test that is certain of it


def accuracy_scores(right: Floats, total: Floats, *, among: Flags | None = None) -> Pooled:
    """Scores from the pairs classified rightly and all pairs of each story, [N, markers] each.

    Markers that no story has are left out; `among` [markers] leaves out more, for systems that are to be compared.
    """
    known = total.sum(axis=0) > 0 if among is None else among
    groups = _groups(known)
    pairs = total.sum(axis=0).astype(int)
    overall = right.sum(axis=0) / np.maximum(pairs, 1)

    def score(sums: Floats) -> Floats:
        drawn_right, drawn_total = np.split(sums, 2, axis=1)
        # A draw without a pair of some marker takes the accuracy of all stories for it.
        accuracy = np.where(drawn_total > 0, drawn_right / np.maximum(drawn_total, 1), overall)  # [draws, markers]
        return np.stack([accuracy[:, places].mean(axis=1) for places in groups.values()], axis=1)

    return Pooled(
        names=tuple(groups),
        definitions=tuple(
            f"macro-accuracy:{'+'.join(MARKERS[place] for place in places)}|pairs:{pairs[places].sum()}"
            for places in groups.values()
        ),
        direction="higher",
        counts=np.concatenate([right, total], axis=1),
        score=score,
    )


def too_few_to_test(total: Floats, *, among: Flags) -> set[str]:
    """The scores that rest on fewer than FEWEST_PAIRS pairs of some marker."""
    pairs = total.sum(axis=0)
    return {name for name, places in _groups(among).items() if pairs[places].min() < FEWEST_PAIRS}


def _groups(known: Flags) -> dict[str, list[int]]:
    """Which markers each score is the mean of: all, those of a category, one."""
    places = {marker: place for place, marker in enumerate(MARKERS) if known[place]}
    groups = {"accuracy": list(places.values())}
    for category, markers in CATEGORIES.items():
        groups[f"accuracy-{category}"] = [places[marker] for marker in markers if marker in places]
    groups |= {f"accuracy-{marker}": [place] for marker, place in places.items()}
    return {name: members for name, members in groups.items() if members}
