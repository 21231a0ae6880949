"""Resampling of stories, and the confidence interval that many resamples give.

Scores that are means over stories: percentile bootstrap (Efron 1979). Scores pooled over all stories (distinct,
MS-Jaccard): random halves without replacement, because a story taken twice would count as repetition. Their deviations
from their mean, scaled by sqrt(b / (U - b)) for b of U units, are distributed as the score's error (the jackknife
histogram, Wu 1990; subsampling, Politis & Romano 1994); the mean is taken out because these scores change with the
amount of text. Stories of one prompt are taken together. Equal seeds give equal resamples, so those of two systems
pair. A system of several trainings is resampled over those too (`discodvt.evaluation.metric`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discodvt.errors import BadRequest
from discodvt.evaluation.metric import Floats, Ints, MeanOverSeeds, Metric, Resampling, Weights

LEVEL = 0.95
RESAMPLES_PER_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Resampler:
    """How stories are resampled: `unit[i]` is the prompt, or else the story itself, that story i is taken with."""

    unit: Ints
    named: str  # "story" or "prompt"
    resamples: int
    seed: int

    @property
    def units(self) -> int:
        return int(self.unit.max()) + 1

    @property
    def possible(self) -> bool:
        """One unit says nothing about spread."""
        return self.units > 1 and self.resamples > 0

    @property
    def scale(self) -> float:
        """What turns the deviations of random halves into those of the whole."""
        half = self.units // 2
        return float(np.sqrt(half / (self.units - half)))

    def weights(self, resampling: Resampling) -> Iterator[Weights]:
        """The resamples, some rows at a time: how often each story is taken."""
        generator = np.random.default_rng(self.seed)
        for start in range(0, self.resamples, RESAMPLES_PER_BLOCK):
            rows = min(RESAMPLES_PER_BLOCK, self.resamples - start)
            shape, row = (rows, self.units), np.arange(rows)[:, None]
            if resampling == "bootstrap":
                drawn = generator.integers(self.units, size=shape)
            else:
                half = self.units // 2
                drawn = np.argpartition(generator.random(shape), half, axis=1)[:, :half]
            taken = np.bincount((row * self.units + drawn).ravel(), minlength=rows * self.units)
            yield taken.reshape(shape).astype(np.float32)[:, self.unit]

    def signature(self, resampling: Resampling) -> str:
        if not self.possible or resampling == "none":
            return "interval:none"
        method = "percentile-bootstrap" if resampling == "bootstrap" else "subsample-half-without-replacement"
        return f"interval:{method}|level:{LEVEL}|draws:{self.resamples}|unit:{self.named}|seed:{self.seed}"


def make_resampler(stories: int, prompts: Sequence[str] | None, *, resamples: int, seed: int) -> Resampler:
    """Resample prompts where they are given, else stories."""
    if prompts is None:
        return Resampler(np.arange(stories), "story", resamples, seed)
    number = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
    return Resampler(np.array([number[prompt] for prompt in prompts]), "prompt", resamples, seed)


def need_spread(resampler: Resampler, where: object) -> None:
    """Refuse intervals over one story, or over the stories of one prompt: their spread is unknown."""
    if resampler.resamples and resampler.units < 2:
        raise BadRequest(
            f"{where}: intervals need more than one {resampler.named}; give more, or score without with `resamples` 0",
            parameter="resamples",
        )


def replicate(metric: Metric, resampler: Resampler) -> Floats | None:
    """The scores under every resample, [resamples, k]; None where no interval can be given."""
    if not resampler.possible or metric.resampling == "none":
        return None
    if isinstance(metric, MeanOverSeeds):
        scale = resampler.scale if metric.resampling == "subsample" else 1.0
        members = [replicate(member, resampler) for member in metric.members]
        return metric.draw(np.array(members), scale=scale, seed=resampler.seed)
    return np.concatenate([metric.under(weights) for weights in resampler.weights(metric.resampling)])


def interval(values: Floats, replicates: Floats, resampling: Resampling, resampler: Resampler) -> tuple[Floats, Floats]:
    """Low and high ends, [k] each; they hold the values."""
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    if resampling == "bootstrap":
        low, high = np.quantile(replicates, tails, axis=0)
        return low, high
    below, above = np.quantile(resampler.scale * (replicates - replicates.mean(axis=0)), tails, axis=0)
    # Halves of a handful may all but one agree: their deviations then lie on one side of their mean.
    return np.minimum(values - above, values), np.maximum(values - below, values)
