"""How codes are used over the plans of a split: counts, place in the story, neighbours."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from discodvt.data.ragged import Ragged
from discodvt.evaluation.arrays import Floats, Ints
from discodvt.evaluation.utilisation import spread, utilisation
from discodvt.training.watchdog import usage

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
