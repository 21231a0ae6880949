"""Gumbel-softmax (Jang et al. 2017, Maddison et al. 2017): the paper's bottleneck (equations 2 and 3)."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from discodvt.model.bottlenecks.base import Bottleneck, BottleneckOutput, CodeLogits


class GumbelBottleneck(Bottleneck):
    """One choice among K, a weighted mean of code vectors while it is learned."""

    restartable = True
    straight_through: ClassVar[bool] = False

    def __init__(self, channels: int, codes: int, width: int, **options: Any) -> None:
        super().__init__(channels, codes, width, **options)
        self.to_logits = CodeLogits(channels, codes, gain=self.logit_gain)
        self.embedding = nn.Embedding(codes + 1, width)  # E^z from N(0, 1); last row: the padding code

    @classmethod
    def book_from(cls, weight: Callable[[str], Tensor], codes: int, levels: Sequence[int] | None = None) -> Tensor:
        return weight("embedding.weight")

    def quantize(
        self, features: Tensor, mask: Tensor, *, temperature: float | None, noise: Tensor | None
    ) -> BottleneckOutput:
        logits = self.to_logits(features)  # t [B, L, K]
        codes = logits.argmax(-1).masked_fill(~mask, self.codes)  # equation 2
        if temperature is None:
            vectors = self.embed(codes)
        else:
            weights = self._relax(logits, noise, temperature)
            vectors = weights @ self.embedding.weight[: self.codes]  # o^z = E^z w
            vectors = torch.where(mask.unsqueeze(-1), vectors, self.embedding.weight[self.codes])
        return BottleneckOutput(codes, vectors, logits.softmax(-1))

    def _relax(self, logits: Tensor, noise: Tensor | None, temperature: float) -> Tensor:
        """Equation 3; straight-through sends the drawn code forward and the soft one's gradient back."""
        soft = torch.softmax((logits if noise is None else logits + noise) / temperature, dim=-1)
        if noise is None or not self.straight_through:
            return soft
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard - soft.detach() + soft

    @torch.no_grad()
    def restart(self, dead: Tensor, busy: Tensor, *, generator: torch.Generator) -> None:
        for weight in (self.to_logits.weight, self.embedding.weight):
            sources = weight[busy]
            jitter = torch.randn(sources.shape, generator=generator).to(weight)
            weight[dead] = sources + 0.1 * sources.std(1, keepdim=True) * jitter
        self.to_logits.bias[dead] = self.to_logits.bias[busy]


class StraightThroughBottleneck(GumbelBottleneck):
    """The same choice, hard going forward; its codes are interchangeable with those of `GumbelBottleneck`."""

    straight_through = True
