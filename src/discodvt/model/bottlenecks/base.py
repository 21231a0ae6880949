"""What every discrete bottleneck has in common: continuous features in, one of K codes out (section 3.2.2).

A bottleneck is asked for codes and vectors (`forward`), for the vectors of known codes (`embed`), and for its code book
(`code_book`), so that features -> codes -> vectors is a round trip. Whoever trains one asks it what noise it wants
(`noise_width`) and whether its codes have probabilities (`probabilistic`), adds its own loss (`auxiliary_weight`), and
calls `after_step` when the weights have been updated.
All of it runs in float32: Gumbel noise overflows in half precision.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Gather = Callable[[Tensor], Tensor]


class BottleneckOutput(NamedTuple):
    """What a bottleneck makes of a story's features."""

    codes: Tensor  # [B, L] the likeliest codes, the padding code where there is no story
    vectors: Tensor  # [B, L, E] what the generator is given
    probabilities: Tensor | None  # [B, L, K] of the codes, without noise; None where none are modelled
    auxiliary: Tensor | None = None  # [B] the bottleneck's own loss, a mean over each story's codes


class Bottleneck(nn.Module):
    """K codes; number K is the padding code, a learned vector no posterior and no prior may choose."""

    probabilistic: ClassVar[bool] = True  # whether codes have probabilities, which noise and entropy losses need
    auxiliary_weight: ClassVar[float] = 0.0  # of its own loss; 0: it has none
    restartable: ClassVar[bool] = False  # whether `restart` can revive codes that validation finds unused

    def __init__(
        self, channels: int, codes: int, width: int, *, logit_gain: float = 1.0, levels: Sequence[int] | None = None
    ) -> None:
        """Features of `channels`, code vectors of `width`; `logit_gain` spreads the logits at initialisation."""
        super().__init__()
        problem = self.problem(codes, levels)
        if problem:
            raise ValueError(problem)
        self.codes, self.logit_gain, self.levels = codes, logit_gain, levels

    @classmethod
    def problem(cls, codes: int, levels: Sequence[int] | None = None) -> str | None:
        """Why this bottleneck cannot have so many codes, or codes of these levels, if it cannot."""
        return None if levels is None else "code_levels are for fsq codes; leave them out"

    @property
    def noise_width(self) -> int:
        """Gumbel draws wanted for each code: `noise` is [B, L, noise_width]; 0: none."""
        return self.codes

    @classmethod
    def book_from(cls, weight: Callable[[str], Tensor], codes: int, levels: Sequence[int] | None = None) -> Tensor:
        """The code book made of a bottleneck's weights, looked up by name: engines have no modules, only weights."""
        raise NotImplementedError

    def code_book(self) -> Tensor:
        """The vectors of all codes and, last, of the padding code [K + 1, E]."""
        held = dict(self.named_parameters()) | dict(
            self.named_buffers()
        )  # asking for the state dict would shard (FSDP)
        return self.book_from(held.__getitem__, self.codes, self.levels)

    def embed(self, codes: Tensor) -> Tensor:
        """Codes [B, L], the padding code included, to vectors [B, L, E]."""
        return F.embedding(codes, self.code_book())

    def forward(
        self, features: Tensor, mask: Tensor, *, temperature: float | None = None, noise: Tensor | None = None
    ) -> BottleneckOutput:
        """Features [B, L, C], mask [B, L]; without a temperature the codes are hard, without noise they are soft."""
        with torch.autocast(features.device.type, enabled=False):
            return self.quantize(features.float(), mask, temperature=temperature, noise=noise)

    def quantize(
        self, features: Tensor, mask: Tensor, *, temperature: float | None, noise: Tensor | None
    ) -> BottleneckOutput:
        """`forward`, in float32 whatever the precision around it."""
        raise NotImplementedError

    def after_step(self, gather: Gather) -> None:
        """Called once after each update of the weights; `gather` joins the rows [N, ...] of all processes."""

    def restart(self, dead: Tensor, busy: Tensor, *, generator: torch.Generator) -> None:
        """Re-initialise unused codes [N], each as a near copy of one in heavy use [N], to share its work."""
        raise NotImplementedError


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
