"""The discrete variational bottleneck: continuous features in, one of K codes out (section 3.2.2, equations 2 and 3).

Every bottleneck keeps to one interface: `bottleneck(features, mask, temperature=, noise=)` returns `Discrete`, and
`bottleneck.embed(codes)` gives the vectors of known codes, so that features -> codes -> vectors is a round trip.
All of it runs in float32: Gumbel noise overflows in half precision.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from discodvt.model.configuration import DiscoDVTConfig


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
    def restart(self, dead: Tensor, busy: Tensor, *, generator: torch.Generator) -> None:
        """Give codes nobody uses [N] a second life: each is a near copy of one in heavy use [N], to share its work."""
        for weight in (self.to_logits.weight, self.embedding.weight):
            sources = weight[busy]
            jitter = torch.randn(sources.shape, generator=generator).to(weight)
            weight[dead] = sources + 0.1 * sources.std(1, keepdim=True) * jitter
        self.to_logits.bias[dead] = self.to_logits.bias[busy]


class BitBottleneck(nn.Module):
    """log2 K binary Gumbel-softmax variables, straight-through: the bits of a code's number.

    Not in the paper: discrete autoencoders of text learn more from hashes than from one choice among K (Kaiser and
    Bengio 2018), because every bit of every code is trained at every position. A code's logit is the sum of its bits'.
    """

    def __init__(self, channels: int, codes: int, width: int, *, logit_gain: float) -> None:
        super().__init__()
        self.bits = codes.bit_length() - 1
        self.codes = codes
        self.to_bits = CodeLogits(channels, self.bits, gain=logit_gain)
        self.embedding = nn.Embedding(self.bits + 1, width)  # a code's vector is +- these; last row: the padding code

    def embed(self, codes: Tensor) -> Tensor:
        return self._vectors(_signs(codes, self.bits), codes < self.codes)

    def forward(
        self, features: Tensor, mask: Tensor, *, temperature: float | None = None, noise: Tensor | None = None
    ) -> Discrete:
        """As `GumbelBottleneck.forward`; the difference of two Gumbel draws is the noise of a binary choice."""
        with torch.autocast(features.device.type, enabled=False):
            logits = self.to_bits(features.float())  # [B, L, bits]
            numbers = torch.arange(self.codes, device=logits.device)
            probabilities = (logits @ _signs(numbers, self.bits).T / 2).softmax(-1)
            chosen = ((logits > 0) << torch.arange(self.bits, device=logits.device)).sum(-1)
            codes = chosen.masked_fill(~mask, self.codes)
            if temperature is None:
                return Discrete(codes, self.embed(codes), probabilities)
            signs = self._relax(logits, noise, temperature)
            return Discrete(codes, self._vectors(signs, mask), probabilities)

    def _vectors(self, signs: Tensor, mask: Tensor) -> Tensor:
        """Signs [B, L, bits] to vectors [B, L, E], of variance 1 where those of the bits have it."""
        vectors = signs.to(self.embedding.weight.dtype) @ self.embedding.weight[: self.bits] / self.bits**0.5
        return torch.where(mask.unsqueeze(-1), vectors, self.embedding.weight[self.bits])

    def _relax(self, logits: Tensor, noise: Tensor | None, temperature: float) -> Tensor:
        """Equation 3 for two choices, as signs [B, L, bits] between -1 and 1."""
        if noise is None:
            return torch.tanh(logits / (2 * temperature))
        drawn = logits + noise[..., : self.bits] - noise[..., self.bits : 2 * self.bits]
        soft = torch.tanh(drawn / (2 * temperature))
        return torch.where(drawn > 0, 1.0, -1.0) - soft.detach() + soft


def new_bottleneck(config: DiscoDVTConfig) -> GumbelBottleneck | BitBottleneck:
    """The bottleneck a configuration names, with codes of its own."""
    sizes, gain = (config.conv_channels, config.num_codes, config.code_width), config.code_logit_gain
    if config.bottleneck == "bits":
        return BitBottleneck(*sizes, logit_gain=gain)
    return GumbelBottleneck(*sizes, straight_through=config.bottleneck == "straight-through", logit_gain=gain)


def _signs(codes: Tensor, bits: int) -> Tensor:
    """The bits of each code's number, the lowest first, as -1 and 1 [..., bits]."""
    return ((codes.unsqueeze(-1) >> torch.arange(bits, device=codes.device)) & 1).float() * 2 - 1
