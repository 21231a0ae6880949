"""Schedules as pure functions of the step: nothing to save, nothing to restore."""

import math
from dataclasses import dataclass

from discodvt.config import Relaxation, WordDropout

_RELAXATION, _WORD_DROPOUT = Relaxation(), WordDropout()


def learning_rate(step: int, total: int, *, peak: float, linear: bool, warmup: int) -> float:
    """The rate of update `step`, counted from 0: up over `warmup` steps, then down to 0 after the last, or constant."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return peak * (total - step) / max(1, total - warmup) if linear else peak


@dataclass(frozen=True, slots=True)
class RelaxationSchedule:
    """How codes are relaxed over a run of `total` steps (section 4.2 and the noise-free start), and words dropped."""

    total: int
    start: float
    minimum: float
    decay_rate: float
    noise_free_steps: int = 0
    dropped: float = 0.0
    dropping_steps: float = math.inf

    @classmethod
    def over(
        cls, total: int, relaxation: Relaxation = _RELAXATION, dropout: WordDropout = _WORD_DROPOUT
    ) -> "RelaxationSchedule":
        """With `min_temperature_at`, the rate that reaches the minimum at that share of the run."""
        start, minimum, rate = relaxation.temperature, relaxation.min_temperature, relaxation.decay_rate
        if relaxation.min_temperature_at is not None:
            rate = math.log(start / minimum) / (relaxation.min_temperature_at * total)
        dropping = math.inf if dropout.until is None else dropout.until * total
        return cls(total, start, minimum, rate, round(relaxation.noise_free * total), dropout.rate, dropping)

    def temperature(self, step: int) -> float:
        return max(self.minimum, self.start * math.exp(-self.decay_rate * step))

    def noisy(self, step: int) -> bool:
        return step >= self.noise_free_steps

    def word_dropout(self, step: int) -> float:
        return self.dropped * max(0.0, 1 - step / self.dropping_steps)
