"""Each loss against a closed form or a loop written in NumPy."""

import math

import numpy as np
import pytest
import torch
from tiny_bart import tiny_bart
from torch.nn import functional as F
from transformers import BartForConditionalGeneration

from discodvt.model import token_loss
from discodvt.model.backbones import new_backbone
from discodvt.model.relation_head import RelationHead
from discodvt.training import losses


def small_bart(vocabulary: int = 11) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    return BartForConditionalGeneration(tiny_bart(vocabulary, width=8, heads=1, ffn_width=8))


def reconstruction(states: torch.Tensor, labels: torch.Tensor, bart: BartForConditionalGeneration) -> torch.Tensor:
    return new_backbone(bart.config).summed_loss(bart, states, labels)


def test_reconstruction_of_a_uniform_model_is_tokens_times_log_vocabulary():
    bart = small_bart()
    labels = torch.tensor([[3, 4, 5], [6, -100, -100]])
    assert reconstruction(torch.zeros(2, 3, 8), labels, bart).item() == pytest.approx(4 * math.log(11))


@pytest.mark.parametrize("scores_per_slice", [1, 23, 10**9])
def test_reconstruction_and_its_gradients_equal_plain_cross_entropy(monkeypatch, scores_per_slice):
    monkeypatch.setattr(token_loss, "_SCORES_PER_SLICE", scores_per_slice)
    bart = small_bart()
    bart.final_logits_bias.normal_()
    states = torch.randn(2, 5, 8, requires_grad=True)
    labels = torch.randint(11, (2, 5))
    labels[1, 3:] = -100
    results = []
    for ours in (True, False):
        bart.zero_grad()
        states.grad = None
        if ours:
            loss = reconstruction(states, labels, bart)
        else:
            logits = bart.lm_head(states) + bart.final_logits_bias
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        (loss / 7).backward()
        results.append((loss.detach(), states.grad, bart.lm_head.weight.grad.clone()))
    for ours, plain in zip(*results, strict=True):
        torch.testing.assert_close(ours, plain)
    with torch.no_grad():
        assert reconstruction(states, labels, bart) == pytest.approx(results[1][0].item(), rel=1e-5)


def test_tokens_are_predicted_by_the_direction_of_the_latent_alone():
    torch.manual_seed(0)
    weight, bias = torch.randn(50, 16, requires_grad=True), torch.zeros(50)
    latent, labels = torch.randn(2, 6, 16, requires_grad=True), torch.randint(50, (2, 6))
    labels[0, 4:] = -100
    head = losses.TokenHead(16)
    head.projection.reset_parameters()
    loss = head(latent, weight, bias, labels)
    torch.testing.assert_close(head(1000 * latent, weight, bias, labels), loss)
    states = head.projection(F.normalize(latent, dim=-1) * 4) * 8 / weight.norm(dim=1).mean()
    plain = F.cross_entropy((states @ weight.T).flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    torch.testing.assert_close(loss, plain)
    loss.backward()
    assert weight.grad is None  # the output layer is frozen
    torch.testing.assert_close(latent.grad, torch.autograd.grad(plain, latent)[0], atol=1e-4, rtol=1e-4)


def test_reconstruction_under_autocast_is_near_float32():
    bart = small_bart()
    states, labels = torch.randn(2, 5, 8), torch.randint(11, (2, 5))
    exact = reconstruction(states, labels, bart)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = reconstruction(states, labels, bart)
    rough.backward()
    assert rough.dtype == torch.float32
    assert rough.item() == pytest.approx(exact.item(), rel=0.02)
    assert bart.lm_head.weight.grad.dtype == torch.float32


def test_entropy_closed_forms():
    flat = torch.full((1, 4, 6), 1 / 6)
    assert losses.code_entropy(flat, torch.ones(1, 4, dtype=torch.bool)).item() == pytest.approx(math.log(6))
    certain = F.one_hot(torch.tensor([[2, 2, 2]]), 6).float()
    assert losses.code_entropy(certain, torch.ones(1, 3, dtype=torch.bool)).item() == pytest.approx(0, abs=1e-6)
    two = F.one_hot(torch.tensor([[2, 5]]), 6).float()  # each certain, together fifty-fifty
    assert losses.code_entropy(two, torch.ones(1, 2, dtype=torch.bool)).item() == pytest.approx(math.log(2))


def test_entropy_is_per_story_and_blind_to_padding():
    probabilities = torch.randn(2, 5, 7).softmax(-1).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)
    both = losses.code_entropy(probabilities, mask)
    alone = losses.code_entropy(probabilities[1:, :2], mask[1:, :2])
    torch.testing.assert_close(both[1:], alone)
    both.sum().backward()
    assert (probabilities.grad[1, 2:] == 0).all()
    assert torch.isfinite(probabilities.grad).all()


def test_batch_minus_position_entropy_is_the_information_of_the_codes():
    mask = torch.tensor([[True, True], [True, False]])
    sure = torch.eye(3)[torch.tensor([[0, 1], [2, 0]])]  # three positions, three codes, no doubt
    assert losses.batch_entropy(sure, mask).item() == pytest.approx(math.log(3))
    assert losses.position_entropy(sure, mask).tolist() == pytest.approx([0, 0])
    flat = torch.full((2, 2, 3), 1 / 3)
    assert losses.batch_entropy(flat, mask).item() == pytest.approx(math.log(3))
    assert losses.position_entropy(flat, mask).tolist() == pytest.approx([math.log(3), math.log(3)])


def test_the_rate_of_certain_codes_is_their_loss_under_the_prior():
    torch.manual_seed(0)
    logits, codes = torch.randn(2, 4, 6 + 3), torch.tensor([[0, 5, 2, 2], [1, 3, 0, 0]])
    logits[..., [6, 8]] = -torch.inf  # bos and pad are never drawn
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.bool)
    certain = losses.rate(logits, F.one_hot(codes, 6).float(), mask)
    torch.testing.assert_close(certain, losses.prior(logits, codes.masked_fill(~mask, -100)))
    flat = torch.full((2, 4, 6), 1 / 6, requires_grad=True)
    expected = -logits.log_softmax(-1)[..., :6].mean(-1)[mask].sum()
    rate = losses.rate(logits, flat, mask)
    torch.testing.assert_close(rate, expected)
    rate.backward()
    assert (flat.grad[1, 2:] == 0).all()
    assert (flat.grad[0].argmin(-1) == logits[0, :, :6].argmax(-1)).all()  # towards what the prior expects


def test_the_slope_of_an_entropy_is_finite_where_codes_are_certain():
    logits = torch.tensor([[[0.0, -500.0], [0.0, -500.0]]], requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    probabilities = logits.softmax(-1)
    total = losses.code_entropy(probabilities, mask).sum() + losses.position_entropy(probabilities, mask).sum()
    (total + losses.batch_entropy(probabilities, mask)).backward()
    assert logits.grad.isfinite().all()


def test_relation_loss_equals_a_numpy_loop():
    """Means over EDU positions, projection, bilinear form and softmax, written out (equations 6 and 7)."""
    torch.manual_seed(0)
    head = RelationHead(8, 6, 5)
    latent = torch.randn(2, 9, 8)
    edus = [[(0, 3), (3, 4), (4, 9)], [(0, 2), (2, 6)]]  # positions, end excluded; <s> is in the first
    labels = [[4, 1], [3]]
    pooling = torch.zeros(2, 3, 9)
    for story, spans in enumerate(edus):
        for number, (start, end) in enumerate(spans):
            pooling[story, number, start:end] = 1 / (end - start)
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0]])
    ours = losses.relation(head(latent, pooling, pairs), torch.tensor([4, 1, 3]))

    weights = {name: value.detach().numpy().astype(np.float64) for name, value in head.state_dict().items()}
    expected = 0.0
    for story, spans in enumerate(edus):
        means = [latent[story, a:b].numpy().astype(np.float64).mean(0) for a, b in spans]
        means = [weights["projection.weight"] @ mean + weights["projection.bias"] for mean in means]
        for number, label in enumerate(labels[story]):
            left, right = means[number], means[number + 1]
            scores = np.array([left @ form @ right for form in weights["bilinear.weight"]]) + weights["bilinear.bias"]
            expected -= scores[label] - np.log(np.exp(scores).sum())
    assert ours.item() == pytest.approx(expected, rel=1e-5)


def test_relation_loss_of_no_pairs_is_zero_and_still_reaches_the_head():
    """A micro-batch without pairs must not leave a process of a distributed run without gradients."""
    head = RelationHead(8, 6, 5)
    loss = losses.relation(
        head(torch.randn(1, 4, 8), torch.zeros(1, 1, 4), torch.zeros(0, 2, dtype=torch.long)),
        torch.zeros(0, dtype=torch.long),
    )
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is not None for p in head.parameters())


def test_prior_loss_counts_codes_and_end_only():
    logits = torch.zeros(2, 3, 7)
    logits[..., [4, 6]] = float("-inf")  # bos and pad can never be drawn
    codes = torch.tensor([[1, 2, 5], [5, -100, -100]])
    assert losses.prior(logits, codes).item() == pytest.approx(4 * math.log(5))
