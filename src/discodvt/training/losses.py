"""The losses, each a plain function that returns a sum to be minimised; the loop divides by global counts.

Sums, not means: a batch may be spread over micro-batches, processes and nodes, and only the loop knows how many tokens,
pairs or stories they hold together. Equation numbers are the paper's, whose objectives are these with the sign turned.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from discodvt.checkpoints import Weights
from discodvt.model.token_loss import summed_token_loss


class TokenHead(nn.Module):
    """Story tokens predicted from the latent alone, through the language model's frozen output layer.

    The shortest way for words to reach the codes (after the bag-of-words loss of Zhao et al. 2017); not in the paper.
    Only the direction of the latent counts: its size is the generator's business.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, width)
        nn.init.zeros_(self.projection.weight)  # wild guesses at the start would settle codes for good
        nn.init.zeros_(self.projection.bias)

    def load(self, weights: Weights) -> None:
        """Go on with the head of a checkpoint, if it has one."""
        for name, parameter in self.named_parameters():
            if f"token_head.{name}" in weights:
                parameter.data.copy_(weights[f"token_head.{name}"])

    def forward(self, latent: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
        """-sum log p(y_m | z): latent [B, T, D], output layer [V, D] and [V], labels [B, T] with -100 at padding."""
        real, weight = labels != -100, weight.detach()
        states = self.projection(F.rms_norm(latent[real].float(), latent.shape[-1:], eps=1e-12))
        return summed_token_loss(states * (8 / weight.norm(dim=1).mean()), weight, bias.detach(), labels[real])


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


def rate(logits: Tensor, probabilities: Tensor, mask: Tensor) -> Tensor:
    """-sum over codes of E_q log p(z_l | z_<l, x): the posterior's choice in the eyes of a prior that learns beside it.

    Logits [B, L, K + 3] of the prior, probabilities [B, L, K] of the posterior, mask [B, L]. The part of the evidence
    lower bound that the paper leaves to its second stage: codes become easier to draw from prompts.
    """
    expected = logits.float().log_softmax(-1)[..., : probabilities.shape[-1]]
    return -(probabilities * expected)[mask].sum()


def prior(logits: Tensor, codes: Tensor) -> Tensor:
    """Equation 8, -sum log p(z_l | z_<l, x): logits [B, L, K + 3], codes [B, L] with -100 past the end of the plan."""
    return F.cross_entropy(logits.flatten(0, 1).float(), codes.flatten(), ignore_index=-100, reduction="sum")
