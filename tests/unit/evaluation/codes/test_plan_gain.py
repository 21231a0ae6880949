"""Figures: values, intervals that pair, and none where nothing can be said."""

from operator import sub

import numpy as np
import pytest

from discodvt.errors import WorkFailed
from discodvt.evaluation.codes.plan_gain import Measured, Ratio, perplexity_ratio
from discodvt.evaluation.intervals import make_resampler


def measured(stories: int, resamples: int = 400) -> Measured:
    return Measured(make_resampler(stories, None, resamples=resamples, seed=0))


def test_a_figure_is_a_ratio_of_sums_and_not_a_mean_of_ratios():
    ratio = Ratio(np.array([1.0, 30.0]), np.array([1.0, 10.0]))
    assert measured(2).figure("toy", ratio, unit="nats")["value"] == pytest.approx(31 / 11)


def test_the_interval_holds_the_value_and_shrinks_with_stories():
    chance = np.random.default_rng(0)
    widths = []
    for stories in (50, 5000):
        tokens = chance.integers(5, 50, size=stories).astype(float)
        figure = measured(stories).figure("toy", Ratio(2 * tokens + chance.normal(size=stories) * 9, tokens), unit="n")
        assert figure["low"] < figure["value"] < figure["high"]
        widths.append(figure["high"] - figure["low"])
    assert widths[1] < widths[0] / 5


def test_a_difference_is_paired():
    """Stories differ a lot, the two systems always by 0.1: the difference is certain."""
    chance = np.random.default_rng(1)
    tokens = chance.integers(5, 50, size=60).astype(float)
    losses = tokens * chance.uniform(1, 5, size=60)
    one, other = Ratio(losses + 0.1 * tokens, tokens), Ratio(losses, tokens)
    gap = measured(60).figure("toy", one, other, combine=sub, unit="nats")
    assert [gap["value"], gap["low"], gap["high"]] == pytest.approx([0.1] * 3)
    times = measured(60).figure("toy", one, other, combine=perplexity_ratio, unit="ratio")
    assert [times["value"], times["low"], times["high"]] == pytest.approx([np.exp(0.1)] * 3)


def test_perplexity_is_the_exponential_of_the_mean():
    figure = measured(2).figure("toy", Ratio(np.log([8.0, 2.0]), np.ones(2)), combine=np.exp, unit="perplexity")
    assert figure["value"] == pytest.approx(4)


def test_resamples_without_a_pair_leave_the_interval_a_number():
    """One story in ten has pairs: most resamples of ten stories miss it, and 0 / 0 was written into JSON."""
    pairs = np.array([30.0] + [0.0] * 9)
    figure = measured(10).figure("toy", Ratio(pairs / 2, pairs), unit="fraction")
    assert (figure["value"], figure["low"], figure["high"]) == (0.5, 0.5, 0.5)


def test_a_figure_that_rests_on_too_little_says_so():
    figure = measured(5).figure("toy", Ratio(np.ones(5), np.ones(5)), unit="fraction", few="5 marker pairs")
    assert (figure["value"], figure["low"], figure["high"], figure["too_few"]) == (1, 1, 1, "5 marker pairs")


def test_a_model_that_gives_no_numbers_is_refused():
    with pytest.raises(WorkFailed, match="no finite number"):
        measured(2).figure("nll", Ratio(np.array([np.nan, 1.0]), np.ones(2)), unit="nats")


@pytest.mark.parametrize(("stories", "resamples"), [(1, 400), (5, 0)])
def test_no_interval_from_one_story_or_without_draws(stories, resamples):
    figure = measured(stories, resamples).figure("toy", Ratio(np.ones(stories), np.ones(stories)), unit="n")
    assert (figure["low"], figure["high"]) == (None, None)
    assert "interval:none" in figure["signature"]
