"""Schedules as pure functions of the step: nothing to save, nothing to restore."""

import math
from dataclasses import dataclass


def learning_rate(step: int, total: int, *, peak: float, linear: bool, warmup: int) -> float:
    """The rate of update `step`, counted from 0: up over `warmup` steps, then down to 0 after the last, or constant."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return peak * (total - step) / max(1, total - warmup) if linear else peak


@dataclass(frozen=True, slots=True)
class Softness:
    """How codes are relaxed over a run of `total` steps (section 4.2 and the noise-free start)."""

    total: int
    start: float
    floor: float
    rate: float
    noise_free_steps: int = 0

    @classmethod
    def over(
        cls, total: int, *, start: float, floor: float, rate: float, floor_at: float | None, noise_free: float
    ) -> "Softness":
        """With `floor_at`, the rate that reaches the floor at that share of the run."""
        if floor_at is not None:
            rate = math.log(start / floor) / (floor_at * total)
        return cls(total, start, floor, rate, round(noise_free * total))

    def temperature(self, step: int) -> float:
        return max(self.floor, self.start * math.exp(-self.rate * step))

    def noisy(self, step: int) -> bool:
        return step >= self.noise_free_steps
