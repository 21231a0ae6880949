"""The Gaussian latent: closed forms of the KL, its threshold, pooling, a prior that starts as N(0, I), diagnostics."""

import math

import pytest
import torch
from torch import nn

from discodvt.baselines.cvae_model import (
    MAX_LOG_VARIANCE,
    Gaussian,
    GaussianHead,
    GaussianLatent,
    kl_penalty,
    kl_per_dimension,
    latent_alarms,
    mutual_information,
)


def normal(mean: float, variance: float) -> Gaussian:
    return Gaussian(torch.tensor([[mean]]), torch.tensor([[variance]]).log())


@pytest.mark.parametrize(
    ("posterior", "prior", "expected"),
    [
        (normal(0.7, 2.0), normal(0.7, 2.0), 0.0),
        (normal(1.0, 1.0), normal(0.0, 1.0), 0.5),
        (normal(0.0, math.e), normal(0.0, 1.0), 0.35914),
        (normal(1.0, 0.5), normal(-0.5, 2.0), 0.5 * (math.log(4) + (0.5 + 2.25) / 2 - 1)),
    ],
)
def test_kl_in_closed_form(posterior: Gaussian, prior: Gaussian, expected: float) -> None:
    assert kl_per_dimension(posterior, prior).item() == pytest.approx(expected, abs=1e-5)


def test_kl_agrees_with_monte_carlo() -> None:
    torch.manual_seed(0)
    posterior = Gaussian(torch.randn(1, 3), torch.randn(1, 3))
    prior = Gaussian(torch.randn(1, 3), torch.randn(1, 3))
    z = posterior.sample(torch.randn(400_000, 3))
    estimate = (posterior.log_density(z) - prior.log_density(z)).mean().item()
    assert kl_per_dimension(posterior, prior).sum().item() == pytest.approx(estimate, rel=0.01)


@pytest.mark.parametrize(("difference", "moves"), [(0.44, False), (0.46, True)])  # sqrt(0.2) = 0.4472
def test_no_gradient_below_the_threshold(difference: float, moves: bool) -> None:
    mean = torch.full((1, 1), difference, requires_grad=True)
    kl = kl_per_dimension(Gaussian(mean, torch.zeros(1, 1)), normal(0.0, 1.0))
    kl_penalty(kl, threshold=0.1).sum().backward()
    assert (mean.grad != 0).item() is moves


def test_the_threshold_is_per_story_and_dimension_with_the_other_readings_as_options() -> None:
    kl = torch.tensor([[0.0, 0.05, 0.3], [0.2, 0.2, 0.2]])
    assert kl_penalty(kl, threshold=0.1).tolist() == pytest.approx([0.5, 0.6])
    assert kl_penalty(kl, threshold=0.4, form="total").tolist() == pytest.approx([0.4, 0.6])
    assert kl_penalty(kl, threshold=0.1, form="weight").tolist() == pytest.approx([0.035, 0.06])
    assert kl_penalty(torch.zeros(1, 64), threshold=0.1).item() == pytest.approx(6.4)


def test_the_prior_starts_as_standard_normal_and_learns() -> None:
    prior = GaussianHead(8, 4, hidden=8)
    states, mask = torch.randn(3, 5, 8), torch.ones(3, 5)
    mean, log_variance = prior(states, mask)
    assert mean.abs().max() == log_variance.abs().max() == 0
    (mean.sum() + log_variance.sum()).backward()
    assert prior.layers[-1].weight.grad.abs().max() > 0


def test_log_variances_are_clamped() -> None:
    head = GaussianHead(1, 2)
    nn.init.constant_(head.layers.bias, 1e4)
    kl = kl_per_dimension(head(torch.ones(1, 2, 1), torch.ones(1, 2)), normal(0.0, math.exp(-MAX_LOG_VARIANCE)))
    assert head(torch.ones(1, 2, 1), torch.ones(1, 2)).log_variance.max() == MAX_LOG_VARIANCE
    assert kl.isfinite().all()


def batch(latent: GaussianLatent, rows: int = 3) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    states = torch.randn(rows, 6, 8), torch.randn(rows, 4, 8)
    masks = torch.arange(6) < torch.tensor([[6], [3], [5]]), torch.arange(4) < torch.tensor([[2], [4], [1]])
    return states[0], masks[0], states[1], masks[1], torch.randn(rows, latent.dimensions)


def test_right_padding_changes_nothing_and_a_permuted_batch_permutes() -> None:
    latent = GaussianLatent(8, 4)
    nn.init.normal_(latent.prior.layers[-1].weight)
    story, story_mask, prompt, prompt_mask, noise = batch(latent)
    plain = latent(story, story_mask, prompt, prompt_mask, noise)
    padded = latent(
        torch.cat([story, torch.full((3, 2, 8), 9.0)], 1), torch.nn.functional.pad(story_mask, (0, 2)),
        torch.cat([prompt, torch.full((3, 1, 8), 9.0)], 1), torch.nn.functional.pad(prompt_mask, (0, 1)), noise,
    )  # fmt: skip
    order = [2, 0, 1]
    permuted = latent(story[order], story_mask[order], prompt[order], prompt_mask[order], noise[order])
    for one, other, third in zip(plain[2:], padded[2:], permuted[2:], strict=True):
        assert torch.allclose(one, other, atol=1e-6)
        assert torch.allclose(one[order], third, atol=1e-6)


def test_one_z_is_added_at_every_position_and_without_noise_z_is_the_mean() -> None:
    latent = GaussianLatent(8, 4)
    *inputs, noise = batch(latent)
    output = latent(*inputs, torch.zeros_like(noise))
    assert torch.equal(output.z, output.posterior.mean)
    added = latent.at_positions(output.z, 7)
    assert added.shape == (3, 7, 8)
    assert all(torch.equal(added[:, 0], added[:, place]) for place in range(7))
    nn.init.zeros_(latent.projection.weight)
    assert latent.at_positions(output.z, 7).abs().max() == 0
    assert torch.equal(latent.draw(*inputs[2:], noise), noise)  # the prior is still N(0, I)


def test_mutual_information_is_zero_when_all_stories_are_alike_and_ln_n_when_far_apart() -> None:
    torch.manual_seed(0)
    count = 400
    noise = torch.randn(count, 1)
    alike = Gaussian(torch.zeros(count, 1), torch.zeros(count, 1))
    assert mutual_information(alike, noise) == pytest.approx(0, abs=1e-5)
    apart = Gaussian(1000 * torch.arange(count).unsqueeze(1).float(), torch.zeros(count, 1))
    assert mutual_information(apart, noise) == pytest.approx(math.log(count), abs=1e-3)


def test_mutual_information_of_a_gaussian_channel() -> None:
    torch.manual_seed(0)
    means = 2 * torch.randn(4000, 1)  # means N(0, 4), noise 1: I = 0.5 ln 5
    found = mutual_information(Gaussian(means, torch.zeros_like(means)), torch.randn(4000, 1), rows=999)
    assert found == pytest.approx(0.5 * math.log(5), abs=0.03)


def test_alarms_of_a_collapsed_and_of_a_used_latent() -> None:
    collapsed = {"kl": 0.0, "active_units": 0, "latent_dimensions": 4}
    used = {"kl": 8.0, "active_units": 2, "latent_dimensions": 4}
    (alarm,) = latent_alarms(collapsed, min_swap_gap=0.02)
    assert "posterior collapse: KL 0.000 nats a story, 0 of 4 units active" in alarm
    assert latent_alarms(used | {"swap_gap": 0.1}, min_swap_gap=0.02) == []
    (alarm,) = latent_alarms(used | {"swap_gap": 0.001}, min_swap_gap=0.02)
    assert "costs only 0.001 nats per token" in alarm
