"""The bottleneck against equations 2 and 3, and its interface."""

import pytest
import torch

from discodvt.model.bottleneck import GumbelBottleneck

torch.set_num_threads(1)


def bottleneck(straight_through: bool = False) -> GumbelBottleneck:
    torch.manual_seed(0)
    return GumbelBottleneck(4, 6, 3, straight_through=straight_through, logit_gain=3.0)


FEATURES = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], dtype=torch.bool)


def test_soft_codes_are_equation_3():
    module = bottleneck()
    noise = torch.randn(2, 5, 6)
    out = module(FEATURES, MASK, temperature=0.4, noise=noise)
    logits = FEATURES @ module.to_logits.weight.T + module.to_logits.bias
    raised = torch.exp((logits + noise) / 0.4)
    weights = raised / raised.sum(-1, keepdim=True)
    torch.testing.assert_close(out.vectors[MASK], (weights @ module.embedding.weight[:6])[MASK])
    torch.testing.assert_close(out.probabilities, logits.softmax(-1))


def test_hard_codes_are_a_round_trip_and_padding_is_the_padding_code():
    module = bottleneck()
    out = module(FEATURES, MASK)
    torch.testing.assert_close(module.embed(out.codes), out.vectors)
    assert (out.codes[~MASK] == 6).all()
    assert (out.codes[MASK] < 6).all()


@pytest.mark.parametrize("straight_through", [False, True])
def test_padding_carries_its_own_vector_whatever_the_features(straight_through):
    module = bottleneck(straight_through)
    out = module(FEATURES, MASK, temperature=1.0)
    torch.testing.assert_close(out.vectors[~MASK], module.embedding.weight[6].expand(3, 3))


def test_cold_soft_codes_approach_the_hard_ones():
    module = bottleneck()
    torch.testing.assert_close(module(FEATURES, MASK, temperature=1e-4).vectors, module(FEATURES, MASK).vectors)


def test_straight_through_is_hard_forward_and_soft_backward():
    hard, soft = bottleneck(True), bottleneck(False)
    noise = torch.randn(2, 5, 6)
    gradients = []
    for module in (hard, soft):
        out = module(FEATURES, MASK, temperature=0.9, noise=noise)
        out.vectors.sum().backward()
        gradients.append(module.to_logits.weight.grad)
    out = hard(FEATURES, MASK, temperature=0.9, noise=noise)
    logits = hard.to_logits(FEATURES)
    torch.testing.assert_close(out.vectors[MASK], hard.embed((logits + noise).argmax(-1))[MASK])
    torch.testing.assert_close(*gradients)


def test_noise_draws_from_the_code_distribution():
    module = bottleneck()
    with torch.no_grad():
        expected = module(FEATURES, MASK).probabilities[0, 0]
        noise = -torch.log(-torch.log(torch.rand(4000, 1, 6)))
        drawn = (module.to_logits(FEATURES[:1, :1]) + noise).argmax(-1)
    shares = torch.bincount(drawn.flatten(), minlength=6) / 4000
    torch.testing.assert_close(shares, expected, atol=0.04, rtol=0)


def test_float32_under_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = bottleneck()(FEATURES.bfloat16(), MASK, temperature=0.1, noise=torch.full((2, 5, 6), 1e30))
    assert out.vectors.dtype == out.probabilities.dtype == torch.float32
    assert torch.isfinite(out.vectors).all()


def test_restarted_codes_become_near_copies_of_one_in_use():
    module = bottleneck()
    before = module.embedding.weight.detach().clone()
    module.restart(torch.tensor([1, 4]), 0, generator=torch.Generator().manual_seed(0))
    after = module.embedding.weight.detach()
    kept = [0, 2, 3, 5, 6]
    assert torch.equal(after[kept], before[kept])
    assert (after[[1, 4]] - before[0]).norm() < 0.5 * before[0].norm()
    assert not torch.equal(after[1], after[4])


def test_without_noise_straight_through_codes_are_soft_until_they_are_drawn():
    hard, soft = bottleneck(True), bottleneck(False)
    torch.testing.assert_close(hard(FEATURES, MASK, temperature=0.9), soft(FEATURES, MASK, temperature=0.9))
