"""Scores of counts summed over all stories: what a `Measure` needs, from one function of the sums."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discodvt.evaluation.arrays import Floats, Weights, sum_over_texts
from discodvt.evaluation.measure import Direction, Resampling, Unit


@dataclass(frozen=True, slots=True)
class Pooled:
    """A family of scores; `score` turns summed counts [draws, c] into scores [draws, k]."""

    names: tuple[str, ...]
    definitions: tuple[str, ...]
    direction: Direction
    counts: Floats  # [N, c], each story's own
    score: Callable[[Floats], Floats]
    unit: Unit = "fraction"
    resampling: Resampling = "bootstrap"
    per_story: None = None

    @property
    def values(self) -> Floats:
        return np.asarray(self.score(self.counts.sum(axis=0, keepdims=True))[0])

    def under(self, weights: Weights) -> Floats:
        return self.score(sum_over_texts(weights, self.counts))
