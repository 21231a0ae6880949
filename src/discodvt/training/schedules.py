"""Schedules as pure functions of the step: nothing to save, nothing to restore."""

import math
from dataclasses import dataclass

from discodvt.config import Relaxation


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
    floor: float
    rate: float
    noise_free_steps: int = 0
    dropped: float = 0.0
    dropping_steps: float = math.inf

    @classmethod
    def over(cls, total: int, relaxation: Relaxation) -> "RelaxationSchedule":
        """With `floor_at`, the rate that reaches the floor at that share of the run."""
        start, floor, rate = relaxation.start, relaxation.floor, relaxation.rate
        if relaxation.floor_at is not None:
            rate = math.log(start / floor) / (relaxation.floor_at * total)
        dropping = math.inf if relaxation.word_dropout_until is None else relaxation.word_dropout_until * total
        return cls(total, start, floor, rate, round(relaxation.noise_free * total), relaxation.word_dropout, dropping)

    def temperature(self, step: int) -> float:
        return max(self.floor, self.start * math.exp(-self.rate * step))

    def noisy(self, step: int) -> bool:
        return step >= self.noise_free_steps

    def word_dropout(self, step: int) -> float:
        return self.dropped * max(0.0, 1 - step / self.dropping_steps)
