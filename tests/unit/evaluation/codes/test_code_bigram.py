"""The unigram and the bigram of codes against loops, and the choice of their strength."""

import math

import numpy as np
import pytest

from discodvt.data.tokens import Ragged
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.code_bigram import STRENGTHS, bigram, fit_models, unigram


def random_plans(count: int, vocabulary: int, *, seed: int, sticky: float = 0.0) -> Ragged:
    """Plans whose next code is the one before plus 1 with chance `sticky`, else any."""
    chance = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        row = [int(chance.integers(vocabulary))]
        for _ in range(int(chance.integers(0, 12))):
            moves = chance.random() < sticky
            row.append((row[-1] + 1) % vocabulary if moves else int(chance.integers(vocabulary)))
        rows.append(np.array(row, dtype=np.int32))
    return Ragged.of(rows)


def test_the_unigram_equals_a_loop():
    train, held = random_plans(30, 4, seed=0), random_plans(5, 4, seed=1)
    counts = [train.values.tolist().count(code) for code in range(4)]
    total = sum(counts) + 4 * 0.5
    expected = [-sum(math.log((counts[code] + 0.5) / total) for code in held[row]) for row in range(len(held))]
    assert unigram(train, 4, 0.5).losses(held).tolist() == pytest.approx(expected)


def test_the_bigram_equals_a_loop():
    train, held = random_plans(30, 4, seed=2, sticky=0.5), random_plans(5, 4, seed=3, sticky=0.5)
    base = unigram(train, 4, 1.0)
    pairs = [pair for row in range(len(train)) for pair in zip([4, *train[row][:-1]], train[row], strict=True)]

    def chance(before: int, after: int) -> float:
        here = sum(one == before for one, _ in pairs)
        both = sum(pair == (before, after) for pair in pairs)
        return (both + 3.0 * base.table[0, after]) / (here + 3.0)

    expected = []
    for row in range(len(held)):
        plan = held[row].tolist()
        expected.append(-sum(math.log(chance(*pair)) for pair in zip([4, *plan[:-1]], plan, strict=True)))
    found = bigram(train, 4, 3.0, base=base)
    assert found.losses(held).tolist() == pytest.approx(expected)
    assert found.table.sum(axis=1) == pytest.approx(np.ones(5))


def test_the_bigram_beats_the_unigram_only_where_order_matters():
    ordered, held = random_plans(400, 8, seed=4, sticky=0.8), random_plans(100, 8, seed=5, sticky=0.8)
    single, double = fit_models(ordered, 8)
    assert double.losses(held).sum() < 0.7 * single.losses(held).sum()
    random, held = random_plans(400, 8, seed=6), random_plans(100, 8, seed=7)
    single, double = fit_models(random, 8)
    assert double.losses(held).sum() == pytest.approx(single.losses(held).sum(), rel=0.01)
    assert double.strength > STRENGTHS[len(STRENGTHS) // 2]  # pulled to the unigram


def test_too_few_plans_are_refused():
    with pytest.raises(BadRequest, match="3 training plans"):
        fit_models(random_plans(3, 4, seed=0), 4)
