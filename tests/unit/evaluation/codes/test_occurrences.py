"""Counts of codes against closed forms and loops: perplexity, utilisation, places, neighbours."""

import math
from itertools import pairwise

import numpy as np
import pytest

from discodvt.data.tokens import Ragged
from discodvt.evaluation.codes.occurrences import Occurrences, spread, usage_of, utilisation


def plans_of(*rows: list[int]) -> Ragged:
    return Ragged.of(np.array(row, dtype=np.int32) for row in rows)


def test_perplexity_of_even_use_is_the_number_of_codes_used():
    found = usage_of(plans_of([0, 1, 2, 3], [3, 2, 1, 0]), vocabulary=6, tokens_per_code=8)
    assert found["perplexity"] == pytest.approx(4)
    assert found["ceiling_nats_per_token"] == pytest.approx(math.log(4) / 8)
    assert (found["used"], found["dead"], found["codes"]) == (4, [4, 5], 8)


def test_perplexity_of_uneven_use_is_the_exponential_of_its_entropy():
    found = usage_of(plans_of([0, 0, 0, 1]), vocabulary=2, tokens_per_code=4)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found["perplexity"] == pytest.approx(math.exp(entropy))


def test_utilisation_is_distinct_codes_by_codes_of_each_plan():
    plans = plans_of([5, 5, 5, 5], [1, 2, 3, 4], [7, 7, 2])
    assert utilisation(plans).tolist() == pytest.approx([1 / 4, 1, 2 / 3])


def test_a_distribution_is_told_in_bins_that_sum_to_one():
    told = spread(np.array([0.01, 0.5, 1.0, 1.0]))
    assert told["mean"] == pytest.approx(0.6275)
    assert (told["bins"][0], told["bins"][10], told["bins"][-1]) == (0.25, 0.25, 0.5)
    assert sum(told["bins"]) == pytest.approx(1)


def test_places_are_thirds_of_the_plan():
    found = Occurrences.of(plans_of([0, 0, 1, 1, 2, 2], [0, 1, 2]), 4)
    assert found.places().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert found.mean_positions()[1] == pytest.approx(0.5)


def test_followers_do_not_cross_stories():
    chance = np.random.default_rng(0)
    rows = [chance.integers(5, size=chance.integers(1, 9)).tolist() for _ in range(20)]
    expected = np.zeros((5, 5))
    for row in rows:
        for before, after in pairwise(row):
            expected[before, after] += 1
    assert (Occurrences.of(plans_of(*rows), 5).followed_by() == expected).all()
