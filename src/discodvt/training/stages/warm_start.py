"""Stage `warm-start`: codes and reconstruction on contiguous text, without prompts and relations (section 3.5)."""

from typing import Literal

from discodvt.config import Optimizer
from discodvt.training.stages.reconstruct import CodeLoss, LatentRecipe, Relaxation


class ConstantRate(Optimizer):
    schedule: Literal["linear", "constant"] = "constant"


class ConstantTemperature(Relaxation):
    decay_rate: float = 0.0


class WarmStart(LatentRecipe):
    summary = "A DiscoDVT warmed up on contiguous text: codes and reconstruction, no prompts, no relations."
    reads_prompts = False

    stage: Literal["warm-start"]
    loss: CodeLoss = CodeLoss()
    optimizer: ConstantRate = ConstantRate()
    relaxation: ConstantTemperature = ConstantTemperature()
