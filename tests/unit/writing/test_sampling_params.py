"""Sampling parameters that cannot be are refused."""

import pytest

from discodvt.errors import BadRequest
from discodvt.writing import SamplingParams


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
