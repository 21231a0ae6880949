"""Which stories a draw takes, and the interval that many draws give.

Scores that are means over stories: percentile bootstrap (Efron 1979). Scores pooled over all stories (distinct,
MS-Jaccard): random halves without replacement, because a story drawn twice would count as repetition. Their deviations
from their mean, scaled by sqrt(b / (U - b)) for b of U units, are distributed as the score's error (the jackknife
histogram, Wu 1990; subsampling, Politis & Romano 1994); the mean is taken out because these scores change with the
amount of text. Stories of one prompt are drawn together. Equal seeds give equal draws, so draws of two systems pair.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discodvt.errors import BadRequest
from discodvt.evaluation.arrays import Floats, Ints, Weights
from discodvt.evaluation.measure import Measure, Resampling

LEVEL = 0.95
DRAWS_PER_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Draws:
    """A plan for drawing: `unit[i]` is the prompt, or else the story itself, that story i is drawn with."""

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
        """The draws, some rows at a time: how often each story is taken."""
        generator = np.random.default_rng(self.seed)
        for start in range(0, self.resamples, DRAWS_PER_BLOCK):
            rows = min(DRAWS_PER_BLOCK, self.resamples - start)
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


def plan_draws(stories: int, prompts: Sequence[str] | None, *, resamples: int, seed: int) -> Draws:
    """Draw by prompt where prompts are given, else by story."""
    if prompts is None:
        return Draws(np.arange(stories), "story", resamples, seed)
    number = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
    return Draws(np.array([number[prompt] for prompt in prompts]), "prompt", resamples, seed)


def need_spread(draws: Draws, where: object) -> None:
    """Refuse intervals over one story, or over the stories of one prompt: nothing tells how much they vary."""
    if draws.resamples and draws.units < 2:
        raise BadRequest(
            f"{where}: intervals need more than one {draws.named}; give more, or score without with --resamples 0"
        )


def replicate(measure: Measure, draws: Draws) -> Floats | None:
    """The scores under every draw, [draws, k]; None where no interval can be given."""
    if not draws.possible or measure.resampling == "none":
        return None
    return np.concatenate([measure.under(weights) for weights in draws.weights(measure.resampling)])


def interval(values: Floats, replicates: Floats, resampling: Resampling, draws: Draws) -> tuple[Floats, Floats]:
    """Low and high ends, [k] each."""
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    if resampling == "bootstrap":
        low, high = np.quantile(replicates, tails, axis=0)
        return low, high
    below, above = np.quantile(draws.scale * (replicates - replicates.mean(axis=0)), tails, axis=0)
    return values - above, values - below
