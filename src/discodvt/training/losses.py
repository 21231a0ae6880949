"""The losses, each a plain function that returns a sum to be minimised; the loop divides by global counts.

Sums, not means: a batch may be spread over micro-batches, processes and nodes, and only the loop knows how many tokens,
pairs or stories they hold together. Equation numbers are the paper's, whose objectives are these with the sign turned.
"""

from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.model.token_loss import summed_token_loss


def token_prediction(latent: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """-sum log p(y_m | z): story tokens from the latent [B, T, D] alone, by a frozen output layer [V, D], [V].

    The shortest way for words to reach the codes (after the bag-of-words loss of Zhao et al. 2017); not in the paper.
    Only the direction of the latent counts, so that the loss says nothing about its size: logits start with a standard
    deviation of 1. The latent is read in a frame of its own, its dimensions shuffled and half of them turned: in that
    of the words it would be taken for words (NLL of a pretrained generator 8.3 instead of 1.4 at the same size).
    """
    real, scale = labels != -100, 1 / weight.detach().norm(dim=1).mean()
    order, signs = _frame(latent.shape[-1])
    states = F.rms_norm(latent[real][:, order.to(latent.device)], latent.shape[-1:], eps=1e-12)
    states = states * (scale * signs.to(latent.device))
    return summed_token_loss(states, weight.detach(), bias.detach(), labels[real])


@cache
def _frame(width: int) -> tuple[Tensor, Tensor]:
    """An order of dimensions [D] and their signs [D], always the same."""
    random = np.random.default_rng(0)
    return torch.from_numpy(random.permutation(width)), torch.from_numpy(random.choice([-1.0, 1.0], width)).float()


def code_entropy(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Equation 9: entropy [B] of each story's mean code distribution over its real positions.

    Probabilities [B, L, K], mask [B, L]. To be maximised, so the loop gives it a negative weight.
    """
    real = mask.unsqueeze(-1)
    return _entropy((probabilities * real).sum(1) / real.sum(1).clamp(min=1))


def batch_entropy(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Entropy of the code distribution averaged over all stories of a micro-batch, to be maximised: use every code.

    Not in the paper: the diversity loss of wav2vec 2.0 (Baevski et al. 2020).
    """
    return _entropy(probabilities[mask].mean(0))


def position_entropy(probabilities: Tensor, mask: Tensor) -> Tensor:
    """Entropy [B] of the code distribution at one position, averaged over a story, to be minimised: be certain.

    Not in the paper. A flat distribution has the highest entropy of equation 9 without saying anything; batch entropy
    minus position entropy is the information codes carry about their stories: zero both when flat and when constant.
    """
    return (_entropy(probabilities) * mask).sum(1) / mask.sum(1).clamp(min=1)


def _entropy(probabilities: Tensor) -> Tensor:
    """Of the last dimension, in nats; what is rounded to 0 has no infinite slope."""
    safe = probabilities.clamp(min=torch.finfo(torch.float32).tiny)
    return -(probabilities * safe.log()).sum(-1)


def relation(logits: Tensor, labels: Tensor) -> Tensor:
    """Equation 7, -sum log p(d_i,i+1 | z) over pairs of neighbouring EDUs: logits [P, labels], labels [P]."""
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def prior(logits: Tensor, codes: Tensor) -> Tensor:
    """Equation 8, -sum log p(z_l | z_<l, x): logits [B, L, K + 3], codes [B, L] with -100 past the end of the plan."""
    return F.cross_entropy(logits.flatten(0, 1).float(), codes.flatten(), ignore_index=-100, reduction="sum")
