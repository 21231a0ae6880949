"""Sum of token losses straight from decoder states, without ever holding the logits of a whole batch.

A batch of 4 x 512 tokens over BART's 50,265 words is 412 MB of logits, and as much again for their softmax and their
gradient. Here a slice of positions at a time is scored and its gradient taken on the spot, which costs the same
arithmetic (Wijmans et al. 2024 and Hsu et al. 2024 do so on a GPU).
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

_SCORES_PER_SLICE = 2**22  # 16 MB of float32


class _TokenLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Tensor,
        wants_gradient: bool,
        frozen: bool,
        biased: bool,
    ) -> Tensor:
        # states [N, D], weight [V, D], bias [V], labels [N]
        total = states.new_zeros((), dtype=torch.float32)
        states_grad = torch.empty_like(states) if wants_gradient else states.new_empty(0)
        learns = wants_gradient and not frozen
        weight_grad = torch.zeros_like(weight, dtype=torch.float32) if learns else weight.new_empty(0)
        bias_grad = torch.zeros_like(bias, dtype=torch.float32) if biased and wants_gradient else None
        size = max(1, _SCORES_PER_SLICE // weight.shape[0])
        for start in range(0, len(labels), size):
            part, answers = states[start : start + size], labels[start : start + size]
            logs = torch.addmm(bias, part, weight.T).log_softmax(-1, dtype=torch.float32)  # [n, V]
            total += F.nll_loss(logs, answers, reduction="sum")
            if wants_gradient:
                slope = logs.exp_()  # d loss / d scores = softmax - one-hot
                slope[torch.arange(len(answers), device=slope.device), answers] -= 1
                torch.mm(slope.to(weight.dtype), weight, out=states_grad[start : start + size])
            if bias_grad is not None:
                bias_grad += slope.sum(0)
            if learns:
                weight_grad.addmm_(slope.T, part.float())  # many slices add up: in float32 whatever the weights are
        ctx.gradients, ctx.dtype, ctx.learns = (states_grad, weight_grad, bias_grad), weight.dtype, learns
        return total

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None, None, None, None]:
        (scale,) = outputs
        states_grad, weight_grad, bias_grad = ctx.gradients
        ctx.gradients = None  # scaled in place, so they serve one backward pass only
        weight_grad = weight_grad.mul_(scale).to(ctx.dtype) if ctx.learns else None
        bias_grad = None if bias_grad is None else bias_grad.mul_(scale).to(ctx.dtype)
        return states_grad.mul_(scale), weight_grad, bias_grad, None, None, None, None


def summed_token_loss(states: Tensor, weight: Tensor, bias: Tensor, labels: Tensor) -> Tensor:
    """Sum of -log softmax(states weight' + bias)[label] over N positions: states [N, D], weight [V, D], labels [N]."""
    device, frozen, biased = states.device.type, not weight.requires_grad, bias.requires_grad
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
    states, weight, bias = states.to(dtype), weight.to(dtype), bias.to(dtype)
    loss: Tensor = _TokenLoss.apply(states, weight, bias, labels, torch.is_grad_enabled(), frozen, biased)
    return loss
