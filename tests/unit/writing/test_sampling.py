"""Sampling: the right symbols with the right frequencies, from streams that do not touch each other."""

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from discodvt.errors import BadRequest
from discodvt.writing.sampling import SamplingParams, stream_key
from discodvt.writing.sampling import sample as sample_rows


def sample(logits: np.ndarray, keys: np.ndarray, positions: np.ndarray, **settings) -> np.ndarray:
    """All rows with the same params, the whole distribution by default."""
    params = SamplingParams(**{"top_p": 1.0, "temperature": 1.0} | settings)
    return sample_rows(logits, keys, positions, [params] * len(logits))


def keys(count: int, start: int = 0) -> np.ndarray:
    return np.array([stream_key(0, index, "", "text") for index in range(start, start + count)], dtype=np.uint64)


def at(count: int, position: int = 0) -> np.ndarray:
    return np.full(count, position)


def rows(logits: np.ndarray, count: int) -> np.ndarray:
    return np.tile(logits.astype(np.float32), (count, 1))


SCORES = np.random.default_rng(1).normal(0, 2, 40)
SETTINGS = [
    {},
    {"top_p": 0.7},
    {"top_k": 5},
    {"top_k": 9, "top_p": 0.6},
    {"min_p": 0.1},
    {"top_p": 0.8, "min_p": 0.3, "temperature": 1.7},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_frequencies_are_those_of_hugging_faces_warpers(settings):
    warpers = LogitsProcessorList([TemperatureLogitsWarper(settings.get("temperature", 1.0))])
    if "top_k" in settings:
        warpers.append(TopKLogitsWarper(settings["top_k"]))
    if "top_p" in settings:
        warpers.append(TopPLogitsWarper(settings["top_p"]))
    if "min_p" in settings:
        warpers.append(MinPLogitsWarper(settings["min_p"]))
    expected = warpers(None, torch.tensor(SCORES)[None]).softmax(-1)[0].numpy()
    count = 20_000
    found = np.bincount(sample(rows(SCORES, count), keys(count), at(count), **settings), minlength=40) / count
    assert not found[expected == 0].any()
    assert np.abs(found - expected).max() < 4 * np.sqrt(0.25 / count)


@pytest.mark.parametrize("settings", [{"top_p": 0.999}, {"top_k": 3000}, {"top_p": 1.0}])
def test_a_nucleus_of_unlikely_symbols_is_found_whole(settings):
    """As flat as it gets, beside a row that is sure of itself."""
    logits = np.full((2, 5000), -30.0, dtype=np.float32)
    logits[0, :3000] = 0.0
    logits[1, 7] = 0.0
    drawn = np.array([sample(logits.copy(), keys(2, 2 * n), at(2), **settings) for n in range(500)])
    assert 430 < np.unique(drawn[:, 0]).size < 490  # 3000 (1 - exp(-1/6)) = 461
    assert drawn[:, 0].max() in range(2900, 3000)
    assert set(drawn[:, 1]) == {7}


def test_a_draw_depends_on_its_own_stream_and_position_only():
    logits = np.random.default_rng(0).normal(0, 2, (32, 300)).astype(np.float32)
    together = sample(logits.copy(), keys(32), at(32, 5), top_p=0.9)
    alone = [sample(logits[n : n + 1].copy(), keys(1, n), at(1, 5), top_p=0.9)[0] for n in range(32)]
    assert together.tolist() == alone
    assert together.tolist() != sample(logits.copy(), keys(32), at(32, 6), top_p=0.9).tolist()
    assert stream_key(0, 1, "", "text") != stream_key(0, 1, "", "plan") != stream_key(1, 0, "", "plan")


def test_rows_have_params_of_their_own():
    """Each row is sampled as in a batch of its like, greedy ones too."""
    logits = np.random.default_rng(0).normal(0, 2, (5, 300)).astype(np.float32)
    settings = [{}, {"top_p": 0.5}, {"temperature": 0.0}, {"top_k": 3, "temperature": 2.0}, {"min_p": 0.4}]
    params = [SamplingParams(**{"top_p": 1.0, "temperature": 1.0} | each) for each in settings]
    for position in range(50):
        together = sample_rows(logits.copy(), keys(5), at(5, position), params)
        alike = [sample(logits.copy(), keys(5), at(5, position), **each)[row] for row, each in enumerate(settings)]
        assert together.tolist() == alike
    assert together[2] == logits[2].argmax()


def test_neighbouring_positions_and_streams_are_independent():
    same = rows(np.zeros(2), 4000)
    here, next_to_it = sample(same, keys(4000), at(4000)), sample(same, keys(4000), at(4000, 1))
    assert abs(np.corrcoef(here, next_to_it)[0, 1]) < 0.05
    assert abs(np.corrcoef(here[:-1], here[1:])[0, 1]) < 0.05


def test_rounding_hardly_ever_changes_a_sample():
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, (4000, 500)).astype(np.float32)
    moved = logits + random.normal(0, 1e-4, logits.shape).astype(np.float32)  # a hundred times float32's rounding
    changed = np.mean(sample(logits, keys(4000), at(4000), top_p=0.9) != sample(moved, keys(4000), at(4000), top_p=0.9))
    assert changed < 1e-3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"top_p": 0.0}, "`top_p` 0"),
        ({"top_p": 1.1}, "at most 1"),
        ({"top_p": float("nan")}, "`top_p` nan"),
        ({"top_k": -1}, "`top_k` -1"),
        ({"min_p": 1.0}, "`min_p` 1"),
        ({"temperature": -1.0}, "`temperature` -1"),
        ({"temperature": 1e-46}, "expected 0 .greedy., or a millionth to a million"),
        ({"plan_temperature": 1e-7}, "`plan_temperature` 1e-07"),
        ({"repetition_penalty": 0.0}, "above 0"),
        ({"prompt_bias": -1.0}, "`prompt_bias` -1"),
        ({"min_tokens": 20, "max_tokens": 10}, "`min_tokens` 20 is above `max_tokens` 10"),
        ({"min_codes": 3, "max_codes": 2}, "`min_codes` 3 is above `max_codes` 2"),
        ({"max_tokens": 0}, "`max_tokens` 0"),
    ],
)
def test_parameters_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(BadRequest, match=message):
        SamplingParams(**wrong)
