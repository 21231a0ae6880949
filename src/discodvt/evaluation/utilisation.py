"""Code utilisation: how many different codes a plan has, for its length (appendix A.1)."""

from typing import Any

import numpy as np

from discodvt.data.ragged import Ragged
from discodvt.evaluation.arrays import Floats

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
