"""The bottleneck against equations 2 and 3, and its interface."""

import subprocess
import sys

import pytest
import torch

from discodvt.model.bottlenecks import BOTTLENECKS, load_code_book, new_bottleneck
from discodvt.model.bottlenecks.bits import BitBottleneck
from discodvt.model.bottlenecks.gumbel import GumbelBottleneck, StraightThroughBottleneck

torch.set_num_threads(1)


def bottleneck(straight_through: bool = False) -> GumbelBottleneck:
    torch.manual_seed(0)
    kind = StraightThroughBottleneck if straight_through else GumbelBottleneck
    return kind(4, 6, 3, logit_gain=3.0)


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


def test_restarted_codes_become_near_copies_each_of_its_own_busy_code():
    module = bottleneck()
    before = module.embedding.weight.detach().clone()
    module.restart(torch.tensor([1, 4]), torch.tensor([0, 3]), generator=torch.Generator().manual_seed(0))
    after = module.embedding.weight.detach()
    kept = [0, 2, 3, 5, 6]
    assert torch.equal(after[kept], before[kept])
    for restarted, source in ((1, 0), (4, 3)):
        assert 0 < (after[restarted] - before[source]).norm() < 0.5 * before[source].norm()
        assert module.to_logits.bias[restarted] == module.to_logits.bias[source]


def test_without_noise_straight_through_codes_are_soft_until_they_are_drawn():
    hard, soft = bottleneck(True), bottleneck(False)
    torch.testing.assert_close(hard(FEATURES, MASK, temperature=0.9), soft(FEATURES, MASK, temperature=0.9))


def bits() -> BitBottleneck:
    torch.manual_seed(0)
    return BitBottleneck(4, 8, 3, logit_gain=3.0)


def test_codes_of_bits_are_numbers_in_binary_and_their_vectors_signed_sums():
    module = bits()
    out = module(FEATURES, MASK)
    chosen = (FEATURES @ module.to_bits.weight.T + module.to_bits.bias > 0)[MASK].int()
    assert out.codes[MASK].tolist() == [first + 2 * second + 4 * third for first, second, third in chosen.tolist()]
    assert (out.codes[~MASK] == 8).all()
    expected = (2.0 * chosen - 1) @ module.embedding.weight[:3] / 3**0.5
    torch.testing.assert_close(out.vectors[MASK], expected)
    torch.testing.assert_close(out.vectors[~MASK], module.embedding.weight[3].expand(3, 3))
    torch.testing.assert_close(module.embed(out.codes), out.vectors)


def test_code_probabilities_are_products_of_those_of_bits():
    module = bits()
    sure = torch.sigmoid(module.to_bits(FEATURES))
    product = torch.stack(
        [
            torch.stack([sure[..., bit] if code >> bit & 1 else 1 - sure[..., bit] for bit in range(3)]).prod(0)
            for code in range(8)
        ],
        dim=-1,
    )
    torch.testing.assert_close(module(FEATURES, MASK).probabilities, product)


def test_noise_draws_bits_from_their_distribution():
    module = bits()
    with torch.no_grad():
        expected = torch.sigmoid(module.to_bits(FEATURES[:1, :1]))[0, 0]
        noise = -torch.log(-torch.log(torch.rand(4000, 1, 8)))
        drawn = module._relax(module.to_bits(FEATURES[:1, :1]), noise, 1.0)
    torch.testing.assert_close((drawn[:, 0] > 0).float().mean(0), expected, atol=0.04, rtol=0)


def test_bits_are_soft_without_noise_and_straight_through_with_it():
    module = bits()
    noise = torch.randn(2, 5, 8)
    cold = module(FEATURES, MASK, temperature=1e-4)
    torch.testing.assert_close(cold.vectors, module(FEATURES, MASK).vectors)
    drawn = module(FEATURES, MASK, temperature=0.7, noise=noise)
    drawn.vectors.sum().backward()
    difference = noise[..., :3] - noise[..., 3:6]
    logits = module.to_bits(FEATURES).detach().requires_grad_()
    signs = torch.where(logits + difference > 0, 1.0, -1.0)
    torch.testing.assert_close(drawn.vectors[MASK], (signs @ module.embedding.weight[:3] / 3**0.5)[MASK])
    soft = torch.tanh((logits + difference) / 1.4) @ module.embedding.weight[:3].detach() / 3**0.5
    soft[MASK].sum().backward()
    torch.testing.assert_close(module.to_bits.bias.grad, logits.grad.sum((0, 1)))


def test_bits_padding_carries_no_gradient_to_the_features():
    features = FEATURES.clone().requires_grad_()
    bits()(features, MASK, temperature=1.0, noise=torch.randn(2, 5, 8)).vectors.sum().backward()
    assert not features.grad[~MASK].any()
    assert features.grad[MASK].any()


@pytest.mark.parametrize("name", BOTTLENECKS)
def test_a_code_book_read_from_stored_weights_holds_the_vectors_of_all_codes_and_of_padding(name):
    sizes = {"conv_channels": 4, "num_codes": 8, "code_width": 3, "code_logit_gain": 1.0, "bottleneck": name}
    module = new_bottleneck(sizes)
    stored = {f"bottleneck.{key}": weight for key, weight in module.state_dict().items()}
    book = load_code_book(sizes, stored.__getitem__)
    assert book.shape == (9, 3)
    torch.testing.assert_close(book, module.embed(torch.arange(9)), atol=1e-6, rtol=0)


def test_bottlenecks_do_without_transformers():
    code = "import sys, discodvt.model.bottlenecks; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
