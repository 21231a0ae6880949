"""A system trained with several seeds: its scores are means over the trainings, their intervals over prompts and seeds.

Prompts and seeds are crossed: every training writes to the same prompts. A resample takes prompts as it does for one
training, the same for all of them, and draws as many trainings as there are with replacement (the pigeonhole bootstrap,
Owen 2007). Drawn from S trainings, deviations between them come out too small by sqrt((S - 1) / S), and are widened by
that much. One training has no spread to draw from: its interval is over prompts alone.
"""

from dataclasses import dataclass

import numpy as np

from discodvt.evaluation.metric import Floats, Metric, Weights


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
