"""The discrete variational bottleneck: continuous features in, one of K codes out (section 3.2.2, equations 2 and 3).

Every bottleneck keeps to one interface: `bottleneck(features, mask, temperature=, noise=)` returns `Discrete`, and
`bottleneck.embed(codes)` gives the vectors of known codes, so that features -> codes -> vectors is a round trip.
All of it runs in float32: Gumbel noise overflows in half precision.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Discrete(NamedTuple):
    """What a bottleneck makes of a story's features."""

    codes: Tensor  # [B, L] argmax codes, the padding code where there is no story
    vectors: Tensor  # [B, L, E] what the generator is given
    probabilities: Tensor  # [B, L, K] softmax of the code logits, without noise


class CodeLogits(nn.Linear):
    """W^z, the paper's 1x1 convolution; `gain` spreads the logits at initialisation."""

    def __init__(self, channels: int, codes: int, *, gain: float) -> None:
        self.gain = gain
        super().__init__(channels, codes)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if not getattr(self.weight, "_is_hf_initialized", False):  # transformers' mark of a weight that was loaded
            with torch.no_grad():
                self.weight.mul_(self.gain)


class GumbelBottleneck(nn.Module):
    """Gumbel-softmax (Jang et al. 2017, Maddison et al. 2017), soft as in the paper or straight-through."""

    def __init__(self, channels: int, codes: int, width: int, *, straight_through: bool, logit_gain: float) -> None:
        super().__init__()
        self.to_logits = CodeLogits(channels, codes, gain=logit_gain)
        self.embedding = nn.Embedding(codes + 1, width)  # E^z from N(0, 1); last row: the padding code
        self.codes = codes
        self.straight_through = straight_through

    def embed(self, codes: Tensor) -> Tensor:
        """Codes [B, L], the padding code included, to vectors [B, L, E]."""
        vectors: Tensor = self.embedding(codes)
        return vectors

    def forward(
        self, features: Tensor, mask: Tensor, *, temperature: float | None = None, noise: Tensor | None = None
    ) -> Discrete:
        """Features [B, L, C], mask [B, L]; without a temperature the codes are hard, without noise they are soft."""
        with torch.autocast(features.device.type, enabled=False):
            logits = self.to_logits(features.float())  # t [B, L, K]
            codes = logits.argmax(-1).masked_fill(~mask, self.codes)  # equation 2
            if temperature is None:
                vectors = self.embed(codes)
            else:
                weights = self._relax(logits, noise, temperature)
                vectors = weights @ self.embedding.weight[: self.codes]  # o^z = E^z w
                vectors = torch.where(mask.unsqueeze(-1), vectors, self.embedding.weight[self.codes])
            return Discrete(codes, vectors, logits.softmax(-1))

    def _relax(self, logits: Tensor, noise: Tensor | None, temperature: float) -> Tensor:
        """Equation 3; straight-through sends the drawn code forward and the soft one's gradient back."""
        soft = torch.softmax((logits if noise is None else logits + noise) / temperature, dim=-1)
        if noise is None or not self.straight_through:
            return soft
        hard = torch.zeros_like(soft).scatter_(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard - soft.detach() + soft

    @torch.no_grad()
    def restart(self, dead: Tensor, model_code: int, *, generator: torch.Generator) -> None:
        """Give codes nobody uses a second life: near copies of a code in heavy use."""
        for weight in (self.to_logits.weight, self.embedding.weight):
            source = weight[model_code]
            jitter = torch.randn((len(dead), weight.shape[1]), generator=generator).to(weight)
            weight[dead] = source + 0.1 * source.std() * jitter
        self.to_logits.bias[dead] = self.to_logits.bias[model_code].clone()
