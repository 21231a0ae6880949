"""The watchdog: a model can train with a falling loss and still ignore its plan. It says so, and what to try.

It looks at which codes are used, at what another story's plan costs (the proof that the generator listens), and at
parameters that no gradient reaches.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Figures = dict[str, float]


def usage(counts: Tensor) -> Figures:
    """Codes used, dead codes and perplexity of the code distribution, from how often each occurred [K]."""
    total = int(counts.sum())
    shares = counts.double() / max(1, total)
    used = int((counts > 0).sum())
    return {
        "codes_used": used,
        "codes_dead": len(counts) - used,
        "code_perplexity": float(torch.special.entr(shares).sum().exp()),
    }


def without_gradient(parameters: Iterable[tuple[str, nn.Parameter]]) -> list[str]:
    """Names of trained parameters that got no gradient, or one of zeros."""
    return [
        name
        for name, parameter in parameters
        if parameter.requires_grad and (parameter.grad is None or not bool(parameter.grad.any()))
    ]


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Limits that a run is held to once `grace_steps` have passed."""

    min_code_perplexity: float
    min_swap_gap: float
    grace_steps: int
    restartable: bool = True  # codes made of bits are not

    def alarms(self, step: int, figures: Figures) -> list[str]:
        """What is wrong with these validation figures, each with advice."""
        if step < self.grace_steps or "code_perplexity" not in figures:
            return []
        found = []
        perplexity, gap = figures["code_perplexity"], figures.get("swap_gap")
        if perplexity < self.min_code_perplexity:
            other = "set watchdog.restart_dead_codes=true" if self.restartable else "loss.batch_entropy"
            found.append(
                f"code perplexity {perplexity:.1f} is below {self.min_code_perplexity:g} "
                f"({figures['codes_dead']:.0f} dead codes): raise loss.entropy, or {other}"
            )
        if gap is not None and gap < self.min_swap_gap:
            found.append(
                f"another story's plan costs only {gap:.3f} nats per token: the generator ignores the plan; "
                "set relaxation.noise_free=0.25, model.code_logit_gain=20 and word_dropout.rate=0.3"
            )
        return found
