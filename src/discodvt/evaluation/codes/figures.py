"""A figure: a value with a percentile bootstrap interval over stories, and what it is.

Everything measured here is made of sums over stories divided by one another (nats by tokens, hits by pairs), so the
sums of each story are enough; figures of two systems take the same draws, and their difference is paired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discodvt import __version__
from discodvt.evaluation.arrays import Floats, Weights
from discodvt.evaluation.intervals import LEVEL, Draws
from discodvt.evaluation.measure import Direction

Figure = dict[str, Any]
Combine = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Sums over stories, one divided by the other: each story's share of both [N]."""

    above: Floats
    below: Floats

    @property
    def value(self) -> float:
        return float(self.above.sum() / self.below.sum())

    def under(self, weights: Weights) -> Floats:
        """The ratio under each draw: weights [draws, N] to [draws]."""
        return np.asarray((weights @ self.above) / (weights @ self.below))


@dataclass(frozen=True, slots=True)
class Measured:
    """Makes figures over one set of stories and one set of draws."""

    draws: Draws

    def figure(
        self, meaning: str, *ratios: Ratio, unit: str, direction: Direction = "none", combine: Combine = lambda one: one
    ) -> Figure:
        """`combine` of the ratios (a difference, an exponential), its interval under draws common to all of them."""
        low = high = None
        if self.draws.possible:
            drawn = [np.concatenate(parts) for parts in zip(*self._under(ratios), strict=True)]
            low, high = np.quantile(combine(*drawn), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        stories = len(self.draws.unit)
        return {
            "value": float(combine(*(ratio.value for ratio in ratios))),
            "low": low,
            "high": high,
            "n": stories,
            "unit": unit,
            "direction": direction,
            "signature": f"{meaning}|n:{stories}|{self.draws.signature('bootstrap')}|discodvt:{__version__}",
        }

    def _under(self, ratios: tuple[Ratio, ...]) -> list[list[Floats]]:
        """Each block of draws, as the values of all ratios."""
        return [[ratio.under(weights) for ratio in ratios] for weights in self.draws.weights("bootstrap")]


def difference(one: Any, other: Any) -> Any:
    return one - other


def exponential(one: Any) -> Any:
    """Nats to perplexity."""
    return np.exp(one)


def perplexity_ratio(one: Any, other: Any) -> Any:
    """One perplexity divided by the other, from their nats."""
    return np.exp(one - other)
