"""Temporal abstraction: convolutions that shorten a story 2^c times, and their mirror image (section 3.2.1).

Padding never reaches a real position. Going down, states at padding are zeroed before the first and after every
convolution, as if the story ended in nothing. Going up, the caller follows each plan with at least one padding code,
which is exactly as far as a real token can see past its plan.

New convolutions start as He et al. (2015) have it, so that signals keep their size through the ReLUs; PyTorch's own
start shrinks them by 2.4 a layer, and a model without a pretrained posterior then never hears its plan.
"""

from collections.abc import Mapping
from itertools import pairwise
from math import isfinite, log2, sqrt

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNEL, STRIDE, PADDING = 4, 2, 1
SMALL = 0.1  # gain of the projection to the decoder at its start


class Halving(nn.Conv1d):
    """[B, before, T] to [B, after, T / 2]."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, KERNEL, STRIDE, PADDING)

    def reset_parameters(self) -> None:
        _start(self, seen=self.in_channels * KERNEL)


class Doubling(nn.ConvTranspose1d):
    """[B, before, L] to [B, after, 2 L]."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, KERNEL, STRIDE, PADDING)

    def reset_parameters(self) -> None:
        _start(self, seen=self.in_channels * KERNEL // STRIDE)


class ToDecoder(nn.Linear):
    """The paper's last 1x1 convolution; it starts small, so that a pretrained decoder is not thrown off its track."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=SMALL / sqrt(self.in_features))
        nn.init.zeros_(self.bias)


def _start(convolution: nn.Conv1d | nn.ConvTranspose1d, *, seen: int) -> None:
    """He's start for a convolution whose outputs each see so many inputs."""
    nn.init.normal_(convolution.weight, std=sqrt(2 / seen))
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)


class DownSampling(nn.Module):
    """c convolutions, each halving the length."""

    def __init__(self, width: int, channels: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[channels] * layers]
        self.convolutions = nn.ModuleList(Halving(before, after) for before, after in pairwise(widths))
        self.factor = 2**layers

    def forward(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden [B, T, D] and mask [B, T] (true at real tokens) to features [B, L, C] and mask [B, L]."""
        short = -hidden.shape[1] % self.factor
        mask = F.pad(mask, (0, short))
        states = F.pad(hidden, (0, 0, 0, short)).transpose(1, 2)  # [B, D, T']
        states = states * mask.unsqueeze(1)
        for convolution in self.convolutions:
            mask = mask[:, ::2]  # a position is real while the first of its two inputs is
            states = F.relu(convolution(states)) * mask.unsqueeze(1)
        return states.transpose(1, 2), mask


class UpSampling(nn.Module):
    """c transposed convolutions, each doubling the length, then a projection to the decoder's width."""

    def __init__(self, code_width: int, channels: int, width: int, layers: int, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        widths = [code_width, *[channels] * layers]
        self.convolutions = nn.ModuleList(Doubling(before, after) for before, after in pairwise(widths))
        self.projection = ToDecoder(channels, width)

    def forward(self, vectors: Tensor, length: int) -> Tensor:
        """Code vectors [B, L, E] to the latent h^z [B, length, D]."""
        states = vectors.transpose(1, 2)  # [B, E, L]
        for convolution in self.convolutions:
            states = torch.relu(convolution(states))
        latent: Tensor = self.projection(states[:, :, :length].transpose(1, 2)) * self.scale
        return latent


def rebalanced(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of an `UpSampling`, by name, that make the same latent with a projection as large as at its start.

    Signals of any positive size pass a ReLU alike: what the projection gains the convolutions lose, in equal parts. All
    factors are powers of two, so that no bit of the latent changes; the projection's size is right to a factor of 1.5.
    """
    projection, changed = weights["projection.weight"], dict(weights)
    layers = sum(name.startswith("convolutions.") and name.endswith(".weight") for name in weights)
    ratio = SMALL / sqrt(projection.shape[1]) / max(float(projection.float().std()), 1e-30)
    if not isfinite(ratio):
        return changed
    each, rest = divmod(round(log2(ratio)), layers)
    lost = 0
    for layer in range(layers):
        share = each + (layer < rest)
        lost += share
        weight, bias = (f"convolutions.{layer}.{name}" for name in ("weight", "bias"))
        changed[weight], changed[bias] = weights[weight] * 2.0**-share, weights[bias] * 2.0**-lost
    changed["projection.weight"] = projection * 2.0**lost
    return changed
