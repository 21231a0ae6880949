"""Finite scalar quantisation (Mentzer et al. 2023): a few bounded scalars, each rounded to one of its levels.

A code is a cell of the grid: its number has the levels as digits, the first channel the lowest. The grid is fixed, so
no code can die. Rounding passes gradients straight through; there are no probabilities, no noise and no temperature.
Levels are evenly spaced from -1 to 1; the paper shifts even numbers of levels by half a step.

A loss of its own pulls scalars back that lie far beyond the grid: what is first asked of a new posterior is the same at
all positions, and without this they go into one corner together, where the bound has no slope that could part them.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from discodvt.model.bottlenecks.base import Bottleneck, BottleneckOutput, CodeLogits

MOST_LEVELS = 8  # of a channel, unless they are given
FAR = 1.5  # tanh(1.5) is 0.9, its slope 0.18


def grid_levels(codes: int) -> list[int]:
    """Levels of at most 8, the largest first, whose product is K: the paper's table 1 for its sizes; [] if none are."""
    levels = []
    while codes > 1:
        level = max((level for level in range(2, MOST_LEVELS + 1) if codes % level == 0), default=0)
        if not level:
            return []
        levels.append(level)
        codes //= level
    return levels


class FiniteScalarBottleneck(Bottleneck):
    """Codes whose vectors are sums of the channels' vectors, each times its scalar."""

    probabilistic = False
    auxiliary_weight = 0.25

    def __init__(self, channels: int, codes: int, width: int, **options: Any) -> None:
        super().__init__(channels, codes, width, **options)
        self.grid = self.levels or grid_levels(codes)
        self.to_scalars = CodeLogits(channels, len(self.grid), gain=self.logit_gain)
        self.embedding = nn.Embedding(len(self.grid) + 1, width)  # of the channels; last row: the padding code

    @classmethod
    def problem(cls, codes: int, levels: Sequence[int] | None = None) -> str | None:
        if levels is None:
            return None if grid_levels(codes) else f"{codes} codes are no product of levels up to 8; give code_levels"
        if not levels or not all(type(level) is int and level > 1 for level in levels):
            return f"code_levels {levels} are not all whole numbers from 2"
        if prod(levels) != codes:
            return f"code_levels {' x '.join(map(str, levels))} give {prod(levels)} codes, num_codes is {codes}"
        return None

    @property
    def noise_width(self) -> int:
        return 0

    @classmethod
    def book_from(cls, weight: Callable[[str], Tensor], codes: int, levels: Sequence[int] | None = None) -> Tensor:
        embedding = weight("embedding.weight")
        scalars = _scalars(torch.arange(codes, device=embedding.device), levels or grid_levels(codes))
        return torch.cat([_sums(scalars, embedding), embedding[-1:]])

    def quantize(
        self, features: Tensor, mask: Tensor, *, temperature: float | None, noise: Tensor | None
    ) -> BottleneckOutput:
        scalars = self.to_scalars(features)  # [B, L, channels]
        bounded = torch.tanh(scalars)
        steps = torch.tensor(self.grid, device=bounded.device) - 1
        digits = ((bounded.detach() + 1) / 2 * steps).round().long()
        codes = (digits * _place_values(self.grid, digits)).sum(-1).masked_fill(~mask, self.codes)
        cells = 2 * digits / steps - 1 + (bounded - bounded.detach())
        vectors = torch.where(mask.unsqueeze(-1), _sums(cells, self.embedding.weight), self.embedding.weight[-1])
        excess = (scalars.abs() - FAR).clamp(min=0).square().mean(-1) * mask
        auxiliary = excess.sum(1) / mask.sum(1).clamp(min=1)
        return BottleneckOutput(codes, vectors, None, auxiliary)


def _place_values(levels: Sequence[int], like: Tensor) -> Tensor:
    """What a digit counts in each channel [channels]: 1, then the product of the levels before it."""
    return torch.tensor([prod(levels[:place]) for place in range(len(levels))], device=like.device)


def _scalars(codes: Tensor, levels: Sequence[int]) -> Tensor:
    """Codes [...] to their cells of the grid [..., channels], from -1 to 1."""
    sizes = torch.tensor(levels, device=codes.device)
    digits = codes.unsqueeze(-1) // _place_values(levels, codes) % sizes
    return 2 * digits / (sizes - 1) - 1


def _sums(scalars: Tensor, embedding: Tensor) -> Tensor:
    """Scalars [..., channels] to vectors [..., E], of variance about 1 where those of the channels have it."""
    channels = scalars.shape[-1]
    vectors: Tensor = scalars.to(embedding.dtype) @ embedding[:channels] * (3 / channels) ** 0.5
    return vectors
