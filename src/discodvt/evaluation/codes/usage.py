"""How codes are used over the plans of a split: counts, utilisation of each story, place in it, neighbours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discodvt.data.ragged import Ragged
from discodvt.evaluation.arrays import Floats, Ints
from discodvt.training.watchdog import usage

PLACES = ("beginning", "middle", "end")  # thirds of a plan
BINS = 20


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


def utilisation(plans: Ragged) -> Floats:
    """Distinct codes of each plan divided by its codes [N] (appendix A.1)."""
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


def usage_of(plans: Ragged, *, vocabulary: int, tokens_per_code: int) -> dict[str, Any]:
    """Codes used and dead, the perplexity of their distribution, what it could save at most, and utilisation."""
    counts = Occurrences.of(plans, vocabulary).counts
    found = usage(torch.from_numpy(counts))
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
