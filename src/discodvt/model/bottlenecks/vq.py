"""Vector quantisation: the nearest of K vectors, learned as moving averages (van den Oord et al. 2017, appendix A.1).

Features follow the codes by a commitment loss, codes follow the features by exponential moving averages, without a
gradient (Razavi et al. 2019). A code that hardly any feature is nearest to is restarted at a feature of the step, drawn
at random (Dhariwal et al. 2020); at the first step that is every code. Codes have no probabilities here: entropy
losses, Gumbel noise and temperature are not for them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discodvt.model.bottlenecks.base import Bottleneck, BottleneckOutput, Gather

DECAY = 0.99  # of the moving averages
DEAD = 0.1  # a code used less than this share of the mean is restarted


class VectorBottleneck(Bottleneck):
    """Codes that restart by themselves. `book` and `counts` are the same on every process and saved as weights are."""

    probabilistic = False
    auxiliary_weight = 0.25  # beta of the commitment loss

    book: Tensor
    counts: Tensor

    def __init__(self, channels: int, codes: int, width: int, **options: Any) -> None:
        super().__init__(channels, codes, width, **options)
        self.to_vectors = nn.Linear(channels, width)
        self.padding = nn.Embedding(1, width)
        self.register_buffer("book", torch.randn(codes, width))
        self.register_buffer("counts", torch.zeros(codes))  # moving average of how often a step uses each code
        self._seen: tuple[Tensor, Tensor, Tensor] | None = None  # no buffers: those of process 0 would be sent to all

    @property
    def noise_width(self) -> int:
        """One draw for each feature: those with the highest are where dead codes restart."""
        return 1

    @classmethod
    def book_from(cls, weight: Callable[[str], Tensor], codes: int, levels: Sequence[int] | None = None) -> Tensor:
        return torch.cat([weight("book"), weight("padding.weight")])

    def quantize(
        self, features: Tensor, mask: Tensor, *, temperature: float | None, noise: Tensor | None
    ) -> BottleneckOutput:
        """With a temperature, whatever it is, gradients pass straight through and the step is remembered."""
        vectors = self.to_vectors(features)  # [B, L, E]
        with torch.no_grad():
            distances = self.book.square().sum(-1) - 2 * vectors @ self.book.T  # [B, L, K], but for |vector|^2
            nearest = distances.argmin(-1)
            chosen = F.embedding(nearest, self.book)
        error = (vectors - chosen).square().mean(-1) * mask
        auxiliary = error.sum(1) / mask.sum(1).clamp(min=1)
        if temperature is not None:
            if self.training:
                self._remember(vectors[mask], nearest[mask], None if noise is None else noise[..., 0][mask])
            chosen = chosen + (vectors - vectors.detach())
        chosen = torch.where(mask.unsqueeze(-1), chosen, self.padding.weight[0])
        return BottleneckOutput(nearest.masked_fill(~mask, self.codes), chosen, None, auxiliary)

    @torch.no_grad()
    def _remember(self, vectors: Tensor, codes: Tensor, draws: Tensor | None) -> None:
        """Add a micro-batch, vectors [N, E] of codes [N], to the step: uses, sums, and the K vectors of highest draws.

        Sums are in float64, so that it hardly matters how a step is cut into micro-batches and processes.
        """
        if self._seen is None:
            uses = torch.zeros(self.codes, dtype=torch.float64, device=vectors.device)
            sums = uses.new_zeros(self.codes, vectors.shape[1])
            drawn = vectors.new_full((self.codes, 1 + vectors.shape[1]), -torch.inf)  # the draw, then the vector
        else:
            uses, sums, drawn = self._seen
        uses += torch.bincount(codes, minlength=self.codes)
        sums.index_add_(0, codes, vectors.double())
        if draws is not None:
            drawn = _highest(torch.cat([drawn, torch.cat([draws.unsqueeze(-1), vectors], dim=1)]), self.codes)
        self._seen = uses, sums, drawn

    @torch.no_grad()
    def after_step(self, gather: Gather) -> None:
        """Move each code towards the mean of its features; restart those nobody uses."""
        if self._seen is None:
            return
        uses, sums, drawn = self._seen
        self._seen = None
        uses, sums = gather(uses.unsqueeze(0)).sum(0), gather(sums.unsqueeze(0)).sum(0)
        drawn = _highest(gather(drawn), self.codes)
        at_first = not bool(self.counts.any())
        self.counts.mul_(DECAY).add_((1 - DECAY) * uses)
        shift = (1 - DECAY) * (sums - uses.unsqueeze(1) * self.book)  # sum and count as moving averages, divided
        self.book.add_(shift / self.counts.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1))
        least = DEAD * self.counts.mean()
        dead = torch.nonzero((self.counts < least) | at_first).flatten()[: int(drawn[:, 0].isfinite().sum())]
        self.book[dead] = drawn[: len(dead), 1:]
        self.counts[dead] = 2 * least  # some 70 steps until it is dead again


def _highest(drawn: Tensor, count: int) -> Tensor:
    """The rows [count, 1 + E] with the highest draws, the highest first."""
    return drawn[drawn[:, 0].topk(count).indices]
