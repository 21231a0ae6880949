"""Intervals: they cover what they should, pair, repeat with the seed, and are refused where nothing can be said."""

import random

import numpy as np
import pytest

from discodvt.evaluation import evaluate
from discodvt.evaluation.intervals import interval, make_resampler, replicate
from discodvt.evaluation.metric import StoryMean
from discodvt.evaluation.metrics import ngrams
from discodvt.evaluation.metrics.jaccard import Jaccard
from discodvt.evaluation.scores import metrics_of, read_systems


def told(count: int, *, seed: int, length: int = 40) -> list[list[str]]:
    """Stories that differ in how often they repeat a phrase."""
    rng = random.Random(seed)
    stories = []
    for _ in range(count):
        habit = rng.random()
        phrase = rng.choice([["once", "upon", "a", "time", "there"], ["and", "so", "it", "went", "on"]])
        words: list[str] = []
        while len(words) < length:
            words += phrase if rng.random() < habit / 3 else [f"w{int(rng.paretovariate(0.8)) % 500}"]
        stories.append(words[:length])
    return stories


def test_intervals_cover_the_expected_score_about_as_often_as_they_say():
    sets = [evaluate(told(40, seed=n), told(40, seed=1000 + n), resamples=200, seed=n) for n in range(80)]
    for name in ("B-1", "rep-8", "MSJ-2", "D-4"):
        scores = [each[name] for each in sets]
        expected = np.mean([score.value for score in scores])
        covered = np.mean([score.low <= expected <= score.high for score in scores])
        assert 0.85 <= covered <= 1.0, name
        spread = np.std([score.value for score in scores])
        width = np.mean([score.high - score.low for score in scores]) / (2 * 1.96)
        assert 0.7 < width / spread < 1.5, name


def test_the_same_seed_gives_the_same_interval_and_another_does_not():
    ours, theirs = told(20, seed=1), told(20, seed=2)
    first, again, other = (evaluate(ours, theirs, resamples=100, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert all(first[name].low != other[name].low for name in ("B-1", "MSJ-2", "D-4", "rep-8"))


def test_the_size_of_blocks_changes_nothing(monkeypatch):
    ours, theirs = told(20, seed=1), told(20, seed=2)
    whole = evaluate(ours, theirs, resamples=50), evaluate(ours, theirs, mode="modern", resamples=50)
    monkeypatch.setattr(ngrams, "KEYS_PER_PART", 5)
    monkeypatch.setattr(ngrams, "PLACES_PER_PIECE", 7)
    monkeypatch.setattr(ngrams, "ROWS_PER_BLOCK", 3)
    monkeypatch.setattr(ngrams, "WEIGHTS_PER_STRIP", 1)
    again = evaluate(ours, theirs, resamples=50), evaluate(ours, theirs, mode="modern", resamples=50)
    for before, after in zip(whole, again, strict=True):
        for name, score in before.items():
            ends = (after[name].value, after[name].low, after[name].high)
            assert ends == pytest.approx((score.value, score.low, score.high), rel=1e-6), name


def test_one_story_has_scores_but_no_interval():
    for mode in ("paper", "modern"):
        for score in evaluate(told(1, seed=1), told(1, seed=2), mode=mode).values():
            assert score.low is None
            assert score.high is None
            assert np.isfinite(score.value)
            assert "interval:none" in score.signature


def test_two_prompts_of_many_stories_are_two_units_and_one_is_none():
    ours, theirs = told(10, seed=1), told(10, seed=2)
    assert evaluate(ours, theirs, prompts=["p"] * 10)["B-1"].low is None
    by_prompt = evaluate(ours, theirs, prompts=["p", "q"] * 5)["B-1"]
    assert "unit:prompt" in by_prompt.signature
    values = [evaluate(ours[start::2], theirs[start::2], resamples=0)["B-1"].value for start in (0, 1)]
    assert (by_prompt.low, by_prompt.high) == pytest.approx((min(values), max(values)))


def test_halves_hold_half_the_stories_once_and_bootstraps_all_the_weight():
    resampler = make_resampler(9, None, resamples=150, seed=0)
    halves = np.concatenate(list(resampler.weights("subsample")))
    assert set(halves.ravel()) == {0, 1}
    assert set(halves.sum(axis=1)) == {4}
    whole = np.concatenate(list(resampler.weights("bootstrap")))
    assert set(whole.sum(axis=1)) == {9}
    assert len(halves) == len(whole) == 150


def test_the_interval_of_a_pooled_score_is_centred_on_the_whole_not_on_the_halves():
    resampler = make_resampler(10, None, resamples=1000, seed=0)
    halves = np.random.default_rng(0).normal(0.9, 0.01, size=(1000, 1))
    low, high = interval(np.array([0.5]), halves, "subsample", resampler)
    assert low[0] == pytest.approx(0.5 - 0.0196, abs=0.003)
    assert high[0] == pytest.approx(0.5 + 0.0196, abs=0.003)


def test_replicates_are_the_scores_of_the_drawn_stories():
    """Sufficient statistics answer a draw as counting its stories again would."""
    ours, theirs = told(12, seed=3), told(12, seed=4)
    chosen = [0, 2, 3, 7, 11]
    weights = np.zeros((1, 12), dtype=np.float32)
    weights[0, chosen] = 1
    again = evaluate([ours[n] for n in chosen], [theirs[n] for n in chosen], resamples=0)
    (system,), reference = read_systems([ours], theirs, finishes=[None], prompts=None)
    for metric in metrics_of(system, reference, mode="paper"):
        if "D-4" in metric.names:
            continue  # its words are those of all references
        expected = [again[name].value for name in metric.names]
        np.testing.assert_allclose(metric.under(weights)[0], expected, rtol=1e-6)
        assert isinstance(metric, StoryMean | Jaccard)
        assert replicate(metric, make_resampler(12, None, resamples=300, seed=0)).shape == (300, len(metric.names))
    known = [[word for story in ours for word in story], *theirs]
    full = evaluate([ours[n] for n in chosen] + [["zzz"]] * (len(known) - 5), known, resamples=0)
    (system,), reference = read_systems([ours], [*known[:1], *theirs[1:]], finishes=[None], prompts=None)
    (spread,) = (each for each in metrics_of(system, reference, mode="paper") if "D-4" in each.names)
    np.testing.assert_allclose(spread.under(weights)[0], [full[name].value for name in ("D-4", "D-5")], rtol=1e-6)
