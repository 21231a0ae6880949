"""Shapes and reach of the convolutions."""

import pytest
import torch

from discodvt.model.resampling import SMALL, DownSampling, UpSampling, rebalanced


@pytest.mark.parametrize(("tokens", "codes"), [(1, 1), (8, 1), (9, 2), (64, 8), (65, 9)])
def test_eight_tokens_make_a_code(tokens, codes):
    features, mask = DownSampling(4, 6, 3)(torch.randn(1, tokens, 4), torch.ones(1, tokens, dtype=torch.bool))
    assert features.shape == (1, codes, 6)
    assert mask.all()


def test_a_code_sees_22_tokens():
    torch.manual_seed(0)
    hidden = torch.randn(1, 64, 4, requires_grad=True)
    features, _ = DownSampling(4, 6, 3)(hidden, torch.ones(1, 64, dtype=torch.bool))
    features[0, 4].abs().sum().backward()
    seen = hidden.grad[0].abs().sum(-1).nonzero().flatten()
    assert seen.min() >= 32 - 7
    assert seen.max() <= 39 + 7


def test_what_stands_at_padding_is_never_seen():
    torch.manual_seed(0)
    down = DownSampling(4, 6, 3)
    hidden = torch.randn(1, 32, 4)
    mask = torch.arange(32)[None] < 19
    clean, code_mask = down(hidden, mask)
    dirty, _ = down(hidden.masked_fill(~mask.unsqueeze(-1), 1e6), mask)
    assert torch.equal(clean, dirty)
    assert code_mask.tolist() == [[True, True, True, False]]
    assert (clean[0, 3] == 0).all()


def test_up_sampling_covers_its_length_and_sees_one_code_ahead():
    torch.manual_seed(0)
    vectors = torch.randn(1, 5, 3, requires_grad=True)
    latent = UpSampling(3, 6, 4, 3)(vectors, 29)
    assert latent.shape == (1, 29, 4)
    latent[0, 8:16].abs().sum().backward()  # the tokens of code 1
    assert (vectors.grad[0].abs().sum(-1) > 0).tolist() == [True, True, True, False, False]


@torch.no_grad()
@pytest.mark.parametrize(("layers", "grown"), [(3, 37.0), (3, 1.0), (2, 0.01), (1, 5.0)])
def test_rebalanced_weights_make_the_same_latent_to_the_last_bit(layers, grown):
    """As a long codes stage leaves them: convolutions that grew, biases that are not 0, a projection that shrank."""
    torch.manual_seed(0)
    up = UpSampling(8, 16, 12, layers, scale=0.3)
    for convolution in up.convolutions:
        convolution.bias.normal_(std=0.1)
        for weight in convolution.parameters():
            weight.mul_(grown)
    up.projection.weight.div_(grown**layers)
    up.projection.bias.normal_()
    codes = torch.randn(4, 7, 8)
    before = up(codes, 20)
    up.load_state_dict(rebalanced(up.state_dict()))
    assert torch.equal(up(codes, 20), before)
    assert 1 / 1.6 < float(up.projection.weight.std()) / (SMALL / 4) < 1.6
    for convolution in up.convolutions:
        start = (2 / (convolution.in_channels * 2)) ** 0.5
        assert 1 / 2.1 < float(convolution.weight.std()) / start < 2.1


def test_weights_of_their_usual_size_stay_as_they_are():
    torch.manual_seed(0)
    weights = UpSampling(8, 64, 48, 3).state_dict()
    assert all(torch.equal(weights[name], weight) for name, weight in rebalanced(weights).items())
