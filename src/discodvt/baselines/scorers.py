"""A rescorer: reads prompt and plot so far, says how likely the plot is a real one (Aristotelian Rescoring).

A fine-tunes RoBERTa-large; here any encoder that gives states will do, the one the writers have grown from.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discodvt.model.backbones import masked_mean

CHANGED, REAL = 0, 1  # the two labels


class PlotScorer(nn.Module):
    """Encoder, masked mean, two logits. `encoder(input_ids, attention_mask)` returns states [B, T, D]."""

    def __init__(self, encoder: nn.Module, width: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids [B, T] and mask [B, T] to logits [B, 2] of `CHANGED` and `REAL`."""
        states = self.encoder(input_ids, attention_mask)
        logits: Tensor = self.head(self.dropout(masked_mean(states, attention_mask)))
        return logits

    def log_real(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """ln p(real) [B]."""
        logits: Tensor = self(input_ids, attention_mask)
        return logits.float().log_softmax(-1)[:, REAL]


def scorer_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum of cross entropies: logits [B, 2], labels [B]."""
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def scorer_input(prompt: Sequence[int], plot: Sequence[int], *, longest: int) -> list[int]:
    """Ids of prompt and plot; where they are too many, the prompt and the plot's last tokens (A drops just those)."""
    room = longest - len(prompt)
    return [*prompt[:longest], *plot[max(0, len(plot) - room) :]] if room > 0 else list(prompt[:longest])


def rescore_with(
    scorers: Sequence[PlotScorer], prompts: Sequence[Sequence[int]], *, longest: int, padding: int, skip: int = 1
) -> Callable[[Tensor], Tensor]:
    """The `Rescore` of `TokenRescoring` and of best-of-n: plots [N, T], whose first `skip` ids are no plot (`<s>`).

    N is a multiple of the number of prompts, candidates of one prompt side by side.
    """

    @torch.no_grad()
    def rescore(plots: Tensor) -> Tensor:
        each = len(plots) // len(prompts)
        rows = [
            scorer_input(
                prompts[number // each], [token for token in plot[skip:].tolist() if token != padding], longest=longest
            )
            for number, plot in enumerate(plots)
        ]
        ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding)
        mask = nn.utils.rnn.pad_sequence([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True)
        ids, mask = ids.to(plots.device), mask.to(plots.device)
        return torch.stack([scorer.log_real(ids, mask) for scorer in scorers], dim=-1)

    return rescore
