"""log2 K binary Gumbel-softmax variables, straight-through: the bits of a code's number.

Not in the paper: discrete autoencoders of text learn more from hashes than from one choice among K (Kaiser and Bengio
2018), because every bit of every code is trained at every position. A code's logit is the sum of its bits'.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from discodvt.model.bottlenecks.base import Bottleneck, BottleneckOutput, CodeLogits


class BitBottleneck(Bottleneck):
    """Codes whose vectors are signed sums of the vectors of their bits: none can die, so none is restarted."""

    def __init__(self, channels: int, codes: int, width: int, **options: Any) -> None:
        super().__init__(channels, codes, width, **options)
        self.bits = codes.bit_length() - 1
        self.to_bits = CodeLogits(channels, self.bits, gain=self.logit_gain)
        self.embedding = nn.Embedding(self.bits + 1, width)  # a code's vector is +- these; last row: the padding code

    @classmethod
    def problem(cls, codes: int, levels: Sequence[int] | None = None) -> str | None:
        if codes.bit_count() != 1:
            return f"{codes} codes are no power of two, which codes made of bits need"
        return super().problem(codes, levels)

    @property
    def noise_width(self) -> int:
        """K, of which 2 log2 K are used: a run begun with as many draws goes on with the same noise."""
        return self.codes

    @classmethod
    def book_from(cls, weight: Callable[[str], Tensor], codes: int, levels: Sequence[int] | None = None) -> Tensor:
        embedding = weight("embedding.weight")
        bits = len(embedding) - 1
        return torch.cat(
            [_sums(_signs(torch.arange(codes, device=embedding.device), bits), embedding), embedding[bits:]]
        )

    def embed(self, codes: Tensor) -> Tensor:
        return self._vectors(_signs(codes, self.bits), codes < self.codes)

    def quantize(
        self, features: Tensor, mask: Tensor, *, temperature: float | None, noise: Tensor | None
    ) -> BottleneckOutput:
        """The difference of two Gumbel draws is the noise of a binary choice."""
        logits = self.to_bits(features)  # [B, L, bits]
        numbers = torch.arange(self.codes, device=logits.device)
        probabilities = (logits @ _signs(numbers, self.bits).T / 2).softmax(-1)
        chosen = ((logits > 0) << torch.arange(self.bits, device=logits.device)).sum(-1)
        codes = chosen.masked_fill(~mask, self.codes)
        if temperature is None:
            return BottleneckOutput(codes, self.embed(codes), probabilities)
        signs = self._relax(logits, noise, temperature)
        return BottleneckOutput(codes, self._vectors(signs, mask), probabilities)

    def _vectors(self, signs: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask.unsqueeze(-1), _sums(signs, self.embedding.weight), self.embedding.weight[self.bits])

    def _relax(self, logits: Tensor, noise: Tensor | None, temperature: float) -> Tensor:
        """Equation 3 for two choices, as signs [B, L, bits] between -1 and 1."""
        if noise is None:
            return torch.tanh(logits / (2 * temperature))
        drawn = logits + noise[..., : self.bits] - noise[..., self.bits : 2 * self.bits]
        soft = torch.tanh(drawn / (2 * temperature))
        return torch.where(drawn > 0, 1.0, -1.0) - soft.detach() + soft


def _signs(codes: Tensor, bits: int) -> Tensor:
    """The bits of each code's number, the lowest first, as -1 and 1 [..., bits]."""
    return ((codes.unsqueeze(-1) >> torch.arange(bits, device=codes.device)) & 1).float() * 2 - 1


def _sums(signs: Tensor, embedding: Tensor) -> Tensor:
    """Signs [..., bits] to vectors [..., E], of variance 1 where those of the bits [bits + 1, E] have it."""
    bits = signs.shape[-1]
    vectors: Tensor = signs.to(embedding.dtype) @ embedding[:bits] / bits**0.5
    return vectors
