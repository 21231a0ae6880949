"""Aristotelian Rescoring of plots: score = ln p(writer) + sum_j w_j ln p_j(real), per token or for whole plots.

`token` (faithful): at every token from the second on the five likeliest are scored by every rescorer, and one of them
is drawn from the renormalised scores. `plot`: the best of n whole plots by the same score, with ln p as a mean per
token, as the weights are learned. The first costs up to 250 x 5 x 4 passes a plot, the second n x 4.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import LogitsProcessor

CANDIDATES = 5

Rescore = Callable[[Tensor], Tensor]
"""Plots so far, token ids [N, T], to ln p_j(real) of each rescorer j [N, S]."""


def rescored(log_p: Tensor, log_real: Tensor, weights: Tensor) -> Tensor:
    """Scores [..., N] of candidates: the writer's ln p [..., N] and the rescorers' ln p_j [..., N, S] under w [S]."""
    return log_p + log_real @ weights.to(log_real)


def best_plot(mean_log_p: Tensor, log_real: Tensor, weights: Tensor) -> int:
    """The number of the best of n plots: mean ln p per token [n], ln p_j [n, S]; of equal ones the first."""
    return int(rescored(mean_log_p, log_real, weights).argmax())


class TokenRescoring(LogitsProcessor):
    """Leaves the likeliest tokens, with their scores for logits: sampling from them is rescoring per token.

    For `generate(do_sample=True, top_k=0, logits_processor=[...])`; put what bans tokens before it.
    """

    def __init__(self, rescore: Rescore, weights: Tensor, *, prefix: int = 1, candidates: int = CANDIDATES) -> None:
        self.rescore, self.weights, self.prefix, self.candidates = rescore, weights, prefix, candidates

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Ids so far [B, T], of which `prefix` were given, and logits [B, V] to logits [B, V]."""
        log_p, tokens = scores.float().log_softmax(-1).topk(min(self.candidates, scores.shape[-1]))  # [B, k]
        if input_ids.shape[1] > self.prefix and bool(self.weights.any()):
            longer = torch.cat(
                [input_ids.repeat_interleave(tokens.shape[1], dim=0), tokens.reshape(-1, 1)], dim=1
            )  # [B k, T + 1]
            log_real = self.rescore(longer).view(*tokens.shape, -1)  # [B, k, S]
            log_p = rescored(log_p, log_real.to(log_p), self.weights)
        return torch.full_like(scores, -torch.inf).scatter(-1, tokens, log_p.to(scores.dtype))


class NewVerbsOnly(LogitsProcessor):
    """Bans, right after `<V>`, the first subword of every verb the plot already has (A's `dedup`)."""

    def __init__(self, verb_tag: int) -> None:
        self.verb_tag = verb_tag

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Ids so far [B, T] and logits [B, V] to logits [B, V]."""
        banned = torch.zeros_like(scores, dtype=torch.bool)
        for row, ids in enumerate(input_ids):
            if int(ids[-1]) == self.verb_tag:
                banned[row, ids[1:][ids[:-1] == self.verb_tag]] = True
        return scores.masked_fill(banned, -torch.inf)


class ScoredPlot(NamedTuple):
    """A plot under the writer and the rescorers."""

    mean_log_p: float  # per token
    log_real: tuple[float, ...]  # of each rescorer


def ranking_loss(real: ScoredPlot, generated: ScoredPlot, weights: Tensor) -> Tensor:
    """How much better a generated plot scores than the real one: max(0, score(generated) - score(real))."""
    plots = (real, generated)
    log_p = torch.tensor([plot.mean_log_p for plot in plots], dtype=weights.dtype)
    log_real = torch.tensor([plot.log_real for plot in plots], dtype=weights.dtype)  # [2, S]
    score = rescored(log_p, log_real, weights)
    return (score[1] - score[0]).clamp(min=0)


def learn_weights(
    pairs: Iterable[tuple[ScoredPlot, ScoredPlot]], *, rescorers: int, learning_rate: float = 1e-3, save_every: int = 50
) -> Tensor:
    """Weights [S] of the rescorers from pairs of a real and a generated plot of the same prompt.

    They start at 1, follow the ranking loss by SGD, stay at or above 0, and are averaged over the saves. A's default, a
    squared difference, would only make both plots score the same.
    """
    trail = [weights for _, weights in weight_steps(pairs, rescorers=rescorers, learning_rate=learning_rate)]
    if not trail:
        return torch.ones(rescorers)
    saves = trail[save_every - 1 :: save_every] or trail[-1:]
    return torch.stack(saves).mean(0)


def weight_steps(
    pairs: Iterable[tuple[ScoredPlot, ScoredPlot]], *, rescorers: int, learning_rate: float
) -> Iterator[tuple[float, Tensor]]:
    """Loss and weights after each pair."""
    weights = torch.ones(rescorers, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=learning_rate)
    for real, generated in pairs:
        optimizer.zero_grad()
        loss = ranking_loss(real, generated, weights)
        torch.autograd.backward(loss)
        optimizer.step()
        with torch.no_grad():
            weights.clamp_(min=0)
        yield loss.item(), weights.detach().clone()
