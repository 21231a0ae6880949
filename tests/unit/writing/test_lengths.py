"""Sampling parameters that cannot be are refused; lengths nobody gave are the model's."""

import pytest

from discodvt.errors import BadRequest
from discodvt.writing import SamplingParams
from discodvt.writing.lengths import model_lengths


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"top_p": 0.0}, "top_p 0"),
        ({"top_p": 1.1}, "at most 1"),
        ({"top_p": float("nan")}, "top_p nan"),
        ({"top_k": -1}, "top_k -1"),
        ({"min_p": 1.0}, "min_p 1"),
        ({"temperature": -1.0}, "temperature -1"),
        ({"repetition_penalty": 0.0}, "above 0"),
        ({"min_tokens": 20, "max_tokens": 10}, "min_tokens 20 is above max_tokens 10"),
        ({"min_codes": 3, "max_codes": 2}, "min_codes 3 is above max_codes 2"),
        ({"max_tokens": 0}, "max_tokens 0"),
    ],
)
def test_settings_that_cannot_be(wrong, told):
    with pytest.raises(BadRequest, match=told):
        SamplingParams(**wrong)


def test_the_papers_lengths_at_paper_scale():
    lengths = model_lengths(1024, {}, prior={}, max_codes=64, tokens_per_code=8)
    assert lengths.tokens(SamplingParams()) == (100, 512)
    assert lengths.codes(SamplingParams()) == (1, 64)
    assert lengths.prompt_tokens == 1022


def test_a_model_keeps_its_own_lengths_and_a_request_comes_first():
    own = {"min_new_tokens": 40, "max_new_tokens": 300, "prompt_tokens": 48}
    lengths = model_lengths(520, own, prior={"min_new_tokens": 5}, max_codes=40, tokens_per_code=8)
    assert (lengths.tokens(SamplingParams()), lengths.codes(SamplingParams()), lengths.prompt_tokens) == (
        (40, 300),
        (5, 40),
        48,
    )
    assert lengths.tokens(SamplingParams(max_tokens=30)) == (30, 30)
    assert lengths.tokens(SamplingParams(max_tokens=520)) == (40, 520)
    for wrong in ({"max_tokens": 521}, {"min_tokens": 301}):
        with pytest.raises(BadRequest, match="ask for fewer"):
            lengths.tokens(SamplingParams(**wrong))
    with pytest.raises(BadRequest, match="at most 40"):
        lengths.codes(SamplingParams(max_codes=41))


def test_positions_limit_every_length():
    lengths = model_lengths(80, {}, prior={}, max_codes=0, tokens_per_code=0)
    assert lengths.tokens(SamplingParams()) == (15, 80)
