"""What every metric family is to the rest: names, values, and its values again under other weights of the stories.

Intervals and comparisons know nothing else. A draw is a row of weights, one for each story: how often a bootstrap took
it, or whether a subsample or a fold holds it. Families compute their sufficient statistics once, and answer any number
of draws from them.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from discodvt.evaluation.arrays import Floats, Weights, sum_over_texts

Direction: TypeAlias = Literal["higher", "lower", "none"]
Resampling: TypeAlias = Literal["bootstrap", "subsample", "none"]
Unit: TypeAlias = Literal["fraction", "tokens", "bits"]


class Measure(Protocol):
    """A family of scores of one system: k names over N stories."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def definitions(self) -> tuple[str, ...]:
        """What a signature says of each score."""

    @property
    def direction(self) -> Direction:
        """Which values are better."""

    @property
    def unit(self) -> Unit: ...
    @property
    def resampling(self) -> Resampling:
        """Bootstrap where a story drawn twice does no harm; subsample where its copy would count as repetition."""

    @property
    def values(self) -> Floats:
        """The scores, [k]."""

    @property
    def per_story(self) -> Floats | None:
        """Each story's own scores, [N, k], where they exist."""

    def under(self, weights: Weights) -> Floats:
        """The scores under each draw: weights [draws, N] to [draws, k]."""


@dataclass(frozen=True, slots=True)
class StoryMean:
    """Scores that are the mean of a score of each story."""

    names: tuple[str, ...]
    definitions: tuple[str, ...]
    direction: Direction
    per_story: Floats  # [N, k]
    unit: Unit = "fraction"
    resampling: Resampling = "bootstrap"

    @property
    def values(self) -> Floats:
        return np.asarray(self.per_story.mean(axis=0))

    def under(self, weights: Weights) -> Floats:
        totals = weights.sum(axis=1, keepdims=True, dtype=np.float64)
        return np.asarray(sum_over_texts(weights, self.per_story) / totals)
