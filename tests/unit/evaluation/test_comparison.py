"""Comparing two systems: pairing, the t-test and its stars, folds, what cannot be said."""

import random

import numpy as np
import pytest
from scipy.stats import ttest_rel

from discodvt.errors import BadRequest
from discodvt.evaluation import compare, evaluate
from discodvt.evaluation.comparison import compare_metrics, paired_t_test
from discodvt.evaluation.intervals import make_resampler, replicate
from discodvt.evaluation.metric import StoryMean
from discodvt.evaluation.metrics.distinct import distinct
from discodvt.evaluation.scores import read_systems


def texts(count: int, *, seed: int, words: int = 200, length: int = 60) -> list[list[str]]:
    rng = random.Random(seed)
    return [[f"w{min(int(rng.paretovariate(0.7)), words)}" for _ in range(length)] for _ in range(count)]


def worsened(stories: list[list[str]], *, share: float, seed: int) -> list[list[str]]:
    """The same stories with a share of words replaced by one word."""
    rng = random.Random(seed)
    return [["w1" if rng.random() < share else word for word in story] for story in stories]


def test_a_system_compared_with_itself_shows_nothing():
    stories, references = texts(30, seed=1), texts(30, seed=2)
    for each in compare(stories, stories, references, resamples=100).values():
        assert (each.difference, each.low, each.high) == (0, 0, 0)
        assert (each.p_bootstrap, each.p_t_test, each.stars) == (1, 1, "")


def test_a_clear_loss_is_seen_by_every_test_and_starred():
    stories, references = texts(60, seed=1), texts(60, seed=2)
    found = compare(stories, worsened(stories, share=0.3, seed=3), references, resamples=300)
    for name in ("B-1", "MSJ-2", "D-4", "rep-8"):
        each = found[name]
        assert each.low <= each.difference <= each.high
        assert each.low > 0 or each.high < 0, name
        assert each.p_bootstrap < 0.01
        assert each.stars == "**"
    assert found["rep-8"].difference < 0 < found["D-4"].difference
    assert {name: each.t_test for name, each in found.items()} == dict.fromkeys(found, "story") | dict.fromkeys(
        ("MSJ-2", "MSJ-3", "D-4", "D-5"), "fold"
    )


def test_distinct_of_a_handful_of_ngrams_says_too_few_and_is_not_tested():
    """Halves of few n-grams gave intervals that lay beside the value, and stars for differences of one n-gram."""
    known = [["a", "b", "c", "d"]] * 30
    ours = [["a", "b", "c", "d"] if n < 4 else ["x"] * 6 for n in range(30)]  # four 4-grams with known tokens
    theirs = [["d", "c", "b", "a"][n % 2 :] * 2 for n in range(30)]
    found = compare(ours, theirs, known, resamples=100)
    few = found["D-4"]
    assert few.a.too_few == "4 n-grams, at least 20 are needed"
    assert few.b.too_few is None
    assert few.a.low <= few.a.value <= few.a.high
    assert (few.p_bootstrap, few.p_t_test, few.t_test, few.stars) == (None, None, "none", "")
    assert few.as_dict()["a"]["too_few"]
    assert "too_few" not in few.as_dict()["b"]
    assert compare(theirs, ours, known, resamples=100)["D-4"].p_t_test is None  # on the other side too
    modern = evaluate(ours, known, mode="modern", resamples=50)
    assert modern["LD-5"].too_few  # the references have no 5-gram to sample like


def test_an_interval_of_distinct_holds_its_value():
    for seed in range(60):
        rng = random.Random(seed)
        count, length = rng.choice((2, 4, 8, 12)), rng.choice((4, 5, 6, 8))
        stories = texts(count, seed=seed, words=6, length=length)
        found = compare(stories, texts(count, seed=seed + 99, words=6, length=length), stories, resamples=60, seed=seed)
        for name in ("D-4", "D-5"):
            for each, value in ((found[name].a, found[name].a.value), (found[name], found[name].difference)):
                assert each.low - 1e-12 <= value <= each.high + 1e-12, (seed, name)


def test_differences_that_are_rounding_are_no_differences():
    assert paired_t_test(np.array([1e-17, -1e-17, 3e-17])) == 1.0
    assert paired_t_test(np.full(4, 0.25) + np.array([0, 1e-17, 0, -1e-17])) == 0.0


def test_noise_is_rarely_starred():
    references = texts(40, seed=0)
    pairs = [compare(texts(40, seed=n), texts(40, seed=n + 500), references, resamples=100, seed=n) for n in range(40)]
    for name in ("B-1", "MSJ-2", "D-4"):
        assert sum(each[name].stars != "" for each in pairs) <= 7
        assert sum(each[name].p_bootstrap < 0.05 for each in pairs) <= 7


def test_the_t_test_of_stories_is_scipy_s_paired_one():
    a, b, references = texts(25, seed=1), texts(25, seed=5), texts(25, seed=2)
    per_story = [
        [
            evaluate([story], [reference], resamples=0)["B-1"].value
            for story, reference in zip(system, references, strict=True)
        ]
        for system in (a, b)
    ]
    found = compare(a, b, references, resamples=50)["B-1"]
    assert found.p_t_test == pytest.approx(ttest_rel(*per_story).pvalue)
    assert (found.a.value, found.b.value) == pytest.approx([sum(each) / 25 for each in per_story])


def test_stories_of_one_prompt_are_one_observation_of_the_t_test():
    """Closed form: the test over stories told five times each is the test over the stories told once."""
    a, b, references = texts(12, seed=1), texts(12, seed=5), texts(12, seed=2)
    once = compare(a, b, references, resamples=0)
    five_times = compare(5 * a, 5 * b, 5 * references, prompts=5 * [f"p{n}" for n in range(12)], resamples=0)
    for name in ("B-1", "rB-2", "rep-8"):
        assert five_times[name].t_test == "story"
        assert five_times[name].p_t_test == pytest.approx(once[name].p_t_test)
    one_prompt = compare(a, b, references, prompts=["p"] * 12, resamples=0)
    assert one_prompt["B-1"].p_t_test is None


def test_prompts_with_more_stories_weigh_no_more_in_the_t_test():
    a, b, references = texts(12, seed=1), texts(12, seed=5), texts(12, seed=2)
    sizes = (1, 3, 2, 6)
    prompts = [f"p{number}" for number, size in enumerate(sizes) for _ in range(size)]
    found = compare(a, b, references, prompts=prompts, resamples=0)["rep-8"]
    of_prompts = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
    means = [
        [evaluate(each[rows], references[rows], resamples=0)["rep-8"].value for rows in of_prompts] for each in (a, b)
    ]
    assert found.p_t_test == pytest.approx(ttest_rel(*means).pvalue)


def test_p_and_interval_of_a_pooled_score_take_out_the_mean_of_the_halves_and_their_scale():
    """By hand, for stories of two lengths: distinct is higher in halves, and by more where there is more text."""
    a, b, references = texts(7, seed=1), texts(7, seed=5, length=35), texts(7, seed=2)
    found = compare(a, b, references, resamples=300)["D-4"]
    systems, reference = read_systems([a, b], references, finishes=[None] * 2, prompts=None)
    halves = make_resampler(7, None, resamples=300, seed=0)
    one, two = (replicate(distinct(system.tokens, reference.tokens), halves)[:, 0] for system in systems)
    deviations = np.sqrt(3 / 4) * (one - two - np.mean(one - two))  # halves of three, and four left out
    assert found.p_bootstrap == pytest.approx((1 + (np.abs(deviations) >= abs(found.difference)).sum()) / 301)
    assert 0.01 < found.p_bootstrap < 0.99
    ends = found.difference - np.quantile(deviations, [0.975, 0.025])
    assert (found.low, found.high) == pytest.approx(tuple(ends))


def test_prompts_that_favour_one_system_by_chance_are_rarely_starred():
    """Without any difference, one test in twenty may fall below 0.05: also when five stories share a prompt's luck."""
    rng = np.random.default_rng(0)
    prompts = [f"p{n // 5}" for n in range(100)]
    draws = make_resampler(100, prompts, resamples=0, seed=0)
    luck = rng.normal(size=(20, 400)).repeat(5, axis=0) + rng.normal(size=(100, 400))  # 400 scores without any meaning
    sides = [
        StoryMean(names=("score",) * 400, definitions=("",) * 400, per_story=per_story)
        for per_story in (luck, np.zeros_like(luck))
    ]
    starred = [each.stars != "" for each in compare_metrics(*sides, draws, None)]
    assert 0.02 < np.mean(starred) < 0.08


def test_no_difference_of_shares_goes_beyond_one():
    same, other = [["a"] * 40] * 3, texts(3, seed=1, length=40)
    for one, two in ((same, other), (other, same)):
        for each in compare(one, two, other, resamples=50).values():
            assert -1 <= each.low <= each.high <= 1, each.name


def test_folds_are_ten_of_prompts_and_do_not_depend_on_the_order_of_stories():
    a, b, references = texts(40, seed=1), texts(40, seed=5), texts(40, seed=2)
    prompts = [f"prompt {n // 2}" for n in range(40)]
    found = compare(a, b, references, prompts=prompts, resamples=0)
    order = random.Random(0).sample(range(40), 40)
    shuffled = compare(
        *([each[n] for n in order] for each in (a, b, references)), prompts=[prompts[n] for n in order], resamples=0
    )
    assert found["MSJ-2"].p_t_test == pytest.approx(shuffled["MSJ-2"].p_t_test)
    assert found["MSJ-2"].low is None
    few = compare(a[:9], b[:9], references[:9], resamples=50)
    assert few["MSJ-2"].p_t_test is None
    assert few["B-1"].p_t_test is not None


def test_one_story_cannot_be_compared_but_is_scored():
    found = compare(texts(1, seed=1), texts(1, seed=2), texts(1, seed=3))
    assert found["B-1"].low is found["B-1"].p_bootstrap is found["B-1"].p_t_test is None
    assert found["B-1"].stars == ""


def test_modern_distinct_of_two_systems_takes_the_same_sample():
    references = texts(20, seed=2)
    found = compare(texts(20, seed=1), texts(20, seed=5, length=30), references, mode="modern", resamples=20)["LD-4"]
    samples = [side.signature.split("rarefied-to:")[1].split("|")[0] for side in (found.a, found.b)]
    assert samples == [str(20 * 27 // 4)] * 2


def test_systems_of_different_size_are_refused():
    with pytest.raises(BadRequest, match="3 stories, 2 stories, 3 references"):
        compare(texts(3, seed=1), texts(2, seed=2), texts(3, seed=3))
