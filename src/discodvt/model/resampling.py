"""Temporal abstraction: convolutions that shorten a story 2^c times, and their mirror image (section 3.2.1).

Padding never reaches a real position. Going down, states at padding are zeroed before the first and after every
convolution, as if the story ended in nothing. Going up, the caller follows each plan with at least one padding code,
which is exactly as far as a real token can see past its plan.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KERNEL, STRIDE, PADDING = 4, 2, 1


class DownSampling(nn.Module):
    """c convolutions, each halving the length."""

    def __init__(self, width: int, channels: int, layers: int) -> None:
        super().__init__()
        widths = [width, *[channels] * layers]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(before, after, KERNEL, STRIDE, PADDING) for before, after in pairwise(widths)
        )
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

    def __init__(self, code_width: int, channels: int, width: int, layers: int) -> None:
        super().__init__()
        widths = [code_width, *[channels] * layers]
        self.convolutions = nn.ModuleList(
            nn.ConvTranspose1d(before, after, KERNEL, STRIDE, PADDING) for before, after in pairwise(widths)
        )
        self.projection = nn.Linear(channels, width)  # the paper's 1x1 convolution

    def forward(self, vectors: Tensor, length: int) -> Tensor:
        """Code vectors [B, L, E] to the latent h^z [B, length, D]."""
        states = vectors.transpose(1, 2)  # [B, E, L]
        for convolution in self.convolutions:
            states = torch.relu(convolution(states))
        latent: Tensor = self.projection(states[:, :, :length].transpose(1, 2))
        return latent
