"""Shapes and reach of the convolutions."""

import pytest
import torch

from discodvt.model.resampling import DownSampling, UpSampling


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
