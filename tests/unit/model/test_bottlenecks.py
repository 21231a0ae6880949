"""The bottleneck against equations 2 and 3, and its interface."""

import subprocess
import sys

import pytest
import torch

from discodvt.model.bottlenecks import BOTTLENECKS, load_code_book, new_bottleneck
from discodvt.model.bottlenecks.bits import BitBottleneck
from discodvt.model.bottlenecks.fsq import FiniteScalarBottleneck, grid_levels
from discodvt.model.bottlenecks.gumbel import GumbelBottleneck, StraightThroughBottleneck
from discodvt.model.bottlenecks.vq import VectorBottleneck


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


def vq(codes: int = 4) -> VectorBottleneck:
    torch.manual_seed(0)
    module = VectorBottleneck(4, codes, 3)
    module.book.copy_(torch.randn(codes, 3))
    return module


def alone(rows: torch.Tensor) -> torch.Tensor:
    return rows


def test_vq_takes_the_nearest_vector_and_passes_gradients_straight_through():
    module = vq()
    features = FEATURES.clone().requires_grad_()
    out = module(features, MASK, temperature=0.9)
    vectors = module.to_vectors(FEATURES)
    nearest = torch.cdist(vectors, module.book).argmin(-1)
    assert torch.equal(out.codes, nearest.masked_fill(~MASK, 4))
    assert torch.equal(out.vectors[MASK], module.book[nearest][MASK])
    assert torch.equal(out.vectors[~MASK], module.padding.weight[0].expand(3, 3))
    assert out.probabilities is None
    out.vectors.sum().backward()
    expected = module.to_vectors.weight.sum(0).expand(2, 5, 4) * MASK.unsqueeze(-1)
    torch.testing.assert_close(features.grad, expected.detach())
    torch.testing.assert_close(module(FEATURES, MASK).vectors, module.embed(out.codes))


def test_the_commitment_loss_is_the_squared_distance_to_the_code_and_moves_features_only():
    module = vq()
    out = module(FEATURES, MASK, temperature=0.9)
    gaps = (module.to_vectors(FEATURES) - module.book[out.codes.clamp(max=3)]).square().mean(-1)
    torch.testing.assert_close(out.auxiliary, torch.stack([gaps[0].mean(), gaps[1, :2].mean()]))
    out.auxiliary.sum().backward()
    assert module.to_vectors.weight.grad.any()
    assert module.padding.weight.grad is None


def test_vq_codes_are_moving_averages_of_their_features():
    """Van den Oord et al., appendix A.1, by hand: N = g N + (1 - g) n; m = g m + (1 - g) sum; e = m / N."""
    module = vq()
    module.counts.copy_(torch.tensor([5.0, 4.0, 3.0, 6.0]))
    counts, sums = module.counts.clone(), module.book * module.counts.unsqueeze(1)
    for _ in range(3):
        out = module(FEATURES, MASK, temperature=0.9)  # no noise: nothing restarts
        vectors = module.to_vectors(FEATURES)[MASK].detach()
        for code in range(4):
            mine = vectors[out.codes[MASK] == code]
            counts[code] = 0.99 * counts[code] + 0.01 * len(mine)
            sums[code] = 0.99 * sums[code] + 0.01 * mine.sum(0)
        module.after_step(alone)
        torch.testing.assert_close(module.counts, counts)
        torch.testing.assert_close(module.book, sums / counts.unsqueeze(1))


def test_validation_and_eval_mode_leave_vq_codes_alone():
    module = vq()
    before = {name: weight.clone() for name, weight in module.state_dict().items()}
    module(FEATURES, MASK)
    module.eval()(FEATURES, MASK, temperature=0.9, noise=torch.randn(2, 5, 1))
    module.after_step(alone)
    assert all(torch.equal(weight, before[name]) for name, weight in module.state_dict().items())


def test_all_vq_codes_start_at_features_and_dead_ones_restart_there():
    module, noise = vq(), torch.arange(10.0).view(2, 5, 1)  # the last two features are padding
    vectors = module.to_vectors(FEATURES).detach()
    module(FEATURES, MASK, temperature=0.9, noise=noise)
    module.after_step(alone)
    torch.testing.assert_close(module.book, torch.stack([vectors[1, 1], vectors[1, 0], vectors[0, 4], vectors[0, 3]]))
    assert module(FEATURES, MASK).codes[1, :2].tolist() == [1, 0]
    module.counts.copy_(torch.tensor([9.0, 9.0, 0.001, 9.0]))
    kept = module.book[[0, 1, 3]].clone()
    module(FEATURES[:1, :1], MASK[:1, :1], temperature=0.9, noise=torch.zeros(1, 1, 1))
    used = int(module(FEATURES[:1, :1], MASK[:1, :1]).codes)
    module.after_step(alone)
    torch.testing.assert_close(module.book[2], vectors[0, 0])
    alive = [place for place, code in enumerate((0, 1, 3)) if code != used]
    assert torch.equal(module.book[[0, 1, 3]][alive], kept[alive])
    module(FEATURES[:1, :1], MASK[:1, :1], temperature=0.9, noise=torch.zeros(1, 1, 1))
    module.after_step(alone)
    assert (module.counts > 0).all()


def test_vq_codes_do_not_depend_on_how_a_step_is_cut_over_micro_batches_and_processes():
    noise = torch.randn(2, 5, 1, generator=torch.Generator().manual_seed(3))
    whole, cut, processes = vq(6), vq(6), [vq(6), vq(6)]
    for step in range(3):
        features = FEATURES + step
        whole(features, MASK, temperature=0.9, noise=noise)
        whole.after_step(alone)
        for row in (1, 0):
            rows = slice(row, row + 1)
            for module in (cut, processes[row]):
                module(features[rows], MASK[rows], temperature=0.9, noise=noise[rows])
        cut.after_step(alone)
        kept = [module._seen for module in processes]
        for module in processes:
            pieces = iter(zip(*kept, strict=True))  # uses, sums, draws of both

            def gather(mine, pieces=pieces):
                both = [piece if piece.dim() == mine.dim() else piece.unsqueeze(0) for piece in next(pieces)]
                return torch.cat(both)

            module.after_step(gather)
        for module in (cut, *processes):
            torch.testing.assert_close(module.book, whole.book, atol=1e-6, rtol=0)
            torch.testing.assert_close(module.counts, whole.counts, atol=1e-6, rtol=0)


def fsq(codes: int = 12, levels: list[int] | None = None) -> FiniteScalarBottleneck:
    torch.manual_seed(0)
    return FiniteScalarBottleneck(4, codes, 3, logit_gain=4.0, levels=levels)


@pytest.mark.parametrize(
    ("codes", "levels"),
    [(240, [8, 6, 5]), (256, [8, 8, 4]), (1000, [8, 5, 5, 5]), (4375, [7, 5, 5, 5, 5]), (64000, [8, 8, 8, 5, 5, 5])],
)
def test_levels_are_those_of_the_paper(codes, levels):
    assert grid_levels(codes) == levels


def test_fsq_codes_are_cells_of_a_grid():
    module = fsq(levels=[3, 4])
    out = module(FEATURES, MASK)
    scalars = torch.tanh(FEATURES @ module.to_scalars.weight.T + module.to_scalars.bias)
    rounded = torch.stack([scalars[..., 0].round(), ((scalars[..., 1] + 1) * 1.5).round() / 1.5 - 1], dim=-1)
    expected = rounded @ module.embedding.weight[:2] * 1.5**0.5
    torch.testing.assert_close(out.vectors[MASK], expected[MASK])
    assert torch.equal(out.vectors[~MASK], module.embedding.weight[2].expand(3, 3))
    numbers = (rounded[..., 0] + 1) + 3 * ((rounded[..., 1] + 1) * 1.5)
    assert out.codes[MASK].tolist() == numbers[MASK].round().long().tolist()
    assert len(set(out.codes[MASK].tolist())) > 3
    assert (out.codes[~MASK] == 12).all()
    torch.testing.assert_close(module.embed(out.codes), out.vectors)
    assert len({tuple(row) for row in module.code_book().tolist()}) == 13


def test_fsq_passes_gradients_straight_through_the_rounding():
    module = fsq()
    features = FEATURES.clone().requires_grad_()
    module(features, MASK, temperature=0.5).vectors.sum().backward()
    soft = FEATURES.clone().requires_grad_()
    scale = (3 / 2) ** 0.5  # 12 codes: levels 6 and 2
    (torch.tanh(module.to_scalars(soft)) @ module.embedding.weight[:2] * scale)[MASK].sum().backward()
    torch.testing.assert_close(features.grad, soft.grad)


def test_fsq_pulls_back_what_lies_far_beyond_the_grid_and_nothing_else():
    module = fsq()
    features = (0.6 * FEATURES).requires_grad_()
    out = module(features, MASK)
    scalars = module.to_scalars(features).detach()
    excess = torch.where(scalars.abs() > 1.5, scalars.abs() - 1.5, 0.0).square().mean(-1)
    torch.testing.assert_close(out.auxiliary, torch.stack([excess[0].mean(), excess[1, :2].mean()]))
    out.auxiliary.sum().backward()
    far = (scalars.abs() > 1.5).any(-1) & MASK
    assert torch.equal(features.grad.any(-1), far)
    assert 0 < far.sum() < MASK.sum()


@pytest.mark.parametrize(
    ("name", "codes", "levels", "said"),
    [
        ("fsq", 256, [8, 6, 5], "code_levels 8 x 6 x 5 give 240 codes, num_codes is 256"),
        ("fsq", 256, [256, 1], "not all whole numbers from 2"),
        ("fsq", 22, None, "22 codes are no product of levels up to 8"),
        ("vq", 256, [16, 16], "code_levels are for fsq codes"),
        ("bits", 256, [16, 16], "code_levels are for fsq codes"),
    ],
)
def test_codes_that_a_bottleneck_cannot_have(name, codes, levels, said):
    assert said in (BOTTLENECKS[name].problem(codes, levels) or "")
    sizes = {"conv_channels": 4, "num_codes": codes, "code_width": 3, "code_logit_gain": 1.0, "bottleneck": name}
    for make in (new_bottleneck, lambda config: load_code_book(config, dict[str, torch.Tensor]().__getitem__)):
        with pytest.raises(ValueError, match=said):
            make(sizes | {"code_levels": levels})


@pytest.mark.parametrize("name", BOTTLENECKS)
def test_padding_changes_no_code_vector_loss_or_gradient(name):
    torch.manual_seed(0)
    sizes = {"conv_channels": 4, "num_codes": 8, "code_width": 3, "code_logit_gain": 3.0, "bottleneck": name}
    module = new_bottleneck(sizes)
    noise = torch.randn(2, 5, module.noise_width)
    found = []
    for length in (2, 5):
        module.zero_grad()
        rows = slice(1, 2), slice(0, length)
        out = module(FEATURES[rows], MASK[rows], temperature=0.7, noise=noise[rows])
        loss = out.vectors[:, :2].square().sum() + (0 if out.auxiliary is None else out.auxiliary.sum())
        loss.backward()
        gradients = {key: weight.grad.clone() for key, weight in module.named_parameters() if weight.grad is not None}
        found.append((out.codes[:, :2], out.vectors[:, :2].detach(), loss.detach(), gradients))
    torch.testing.assert_close(*found)


def test_bottlenecks_do_without_transformers():
    code = "import sys, discodvt.model.bottlenecks; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
