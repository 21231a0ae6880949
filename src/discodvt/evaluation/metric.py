"""What a metric is to the rest of the package: names, values, and its values under other weights of the stories.

Intervals and comparisons know nothing else. A resample is a row of weights, one for each story: how often a bootstrap
took it, or whether a subsample or a fold holds it. A metric computes its sufficient statistics once, and answers any
number of resamples from them: `StoryMean` from scores of each story, `PooledCounts` from counts summed over stories.

Of a system trained with several seeds scores are means over the trainings (`MeanOverSeeds`), their intervals over
prompts and seeds, which are crossed: every training writes to the same prompts. A resample takes prompts as it does for
one training, the same for all of them, and draws as many trainings as there are with replacement (the pigeonhole
bootstrap, Owen 2007). Drawn from S trainings, deviations between them come out too small by sqrt((S - 1) / S), and are
widened by that much. One training has no spread to draw from: its interval is over prompts alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Weights: TypeAlias = NDArray[np.float32]  # [resamples, texts]; what is summed with them are counts, exact to 2 ** 24


def sum_over_texts(weights: Weights, amounts: NDArray[np.number]) -> Floats:
    """For each resample, the weighted sum of amounts given for texts, [texts] or [texts, k].

    Not by BLAS: its threads would wait for one another on a busy machine, and the sums are small.
    """
    return np.asarray(np.einsum("dt,t...->d...", weights, amounts, dtype=np.float64))


Direction: TypeAlias = Literal["higher", "lower", "none"]
Resampling: TypeAlias = Literal["bootstrap", "subsample", "none"]
Unit: TypeAlias = Literal["fraction", "tokens", "bits"]


FEWEST = 20  # n-grams or marker pairs: a score of fewer varies by luck, and a test may be certain of it


def too_few(counts: Mapping[str, float], of: str) -> dict[str, str]:
    """The scores that rest on fewer than FEWEST counts, by name, with the reason."""
    return {name: f"{count:.0f} {of}, at least {FEWEST} are needed" for name, count in counts.items() if count < FEWEST}


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A family of scores of one system: k names over N stories."""

    names: tuple[str, ...]
    definitions: tuple[str, ...]  # what a signature says of each score
    direction: Direction = "higher"  # which values are better
    unit: Unit = "fraction"
    resampling: Resampling = "bootstrap"  # "subsample" where a story taken twice would count as repetition
    per_story: Floats | None = None  # each story's own scores [N, k], where they exist
    too_few: Mapping[str, str] = field(default_factory=dict)  # scores that rest on too little to be tested: the reason

    @property
    @abstractmethod
    def values(self) -> Floats:
        """The scores, [k]."""

    @abstractmethod
    def under(self, weights: Weights) -> Floats:
        """The scores under each resample: weights [resamples, N] to [resamples, k]."""


@dataclass(frozen=True, kw_only=True)
class StoryMean(Metric):
    """Scores that are the mean of a score of each story."""

    per_story: Floats  # [N, k]

    @property
    def values(self) -> Floats:
        return np.asarray(self.per_story.mean(axis=0))

    def under(self, weights: Weights) -> Floats:
        totals = weights.sum(axis=1, keepdims=True, dtype=np.float64)
        return np.asarray(sum_over_texts(weights, self.per_story) / totals)


@dataclass(frozen=True, kw_only=True)
class PooledCounts(Metric):
    """A family of scores; `score` turns summed counts [resamples, c] into scores [resamples, k]."""

    counts: Floats  # [N, c], each story's own
    score: Callable[[Floats], Floats]

    @property
    def values(self) -> Floats:
        return np.asarray(self.score(self.counts.sum(axis=0, keepdims=True))[0])

    def under(self, weights: Weights) -> Floats:
        return self.score(sum_over_texts(weights, self.counts))


@dataclass(frozen=True, kw_only=True)
class MeanOverSeeds(Metric):
    """A family of scores, the mean of those of its `members`: one metric for each training, of the same stories."""

    members: tuple[Metric, ...]
    stream: int = 0  # of its draws of trainings; systems that are compared have different ones

    @property
    def values(self) -> Floats:
        return np.asarray(np.mean([member.values for member in self.members], axis=0))

    def under(self, weights: Weights) -> Floats:
        return np.asarray(np.mean([member.under(weights) for member in self.members], axis=0))

    def draw(self, replicates: Floats, *, scale: float, seed: int) -> Floats:
        """Replicates of each member [S, resamples, k] to those of the mean; `scale` is what deviations of random halves
        are multiplied by later, which those between trainings must not be."""
        count, resamples, _ = replicates.shape
        drawn = np.random.default_rng([seed, self.stream]).integers(count, size=(resamples, count))
        values = np.array([member.values for member in self.members])  # [S, k]
        deviations = values[drawn].mean(axis=1) - values.mean(axis=0)  # [resamples, k]
        widened = np.sqrt(count / max(1, count - 1)) / scale
        taken = replicates[drawn, np.arange(resamples)[:, None]].mean(axis=1)
        return np.asarray(taken + (widened - 1) * deviations)


def over_seeds(members: list[Metric], stream: int = 0) -> Metric:
    """The metric of a system: that of its only training, or the mean over several."""
    first = members[0]
    if len(members) == 1:
        return first
    each = [member.per_story for member in members if member.per_story is not None]
    return MeanOverSeeds(
        names=first.names,
        definitions=first.definitions,
        direction=first.direction,
        unit=first.unit,
        resampling=first.resampling,
        per_story=np.asarray(np.mean(each, axis=0)) if each else None,
        too_few={name: reason for member in members for name, reason in member.too_few.items()},
        members=tuple(members),
        stream=stream,
    )
