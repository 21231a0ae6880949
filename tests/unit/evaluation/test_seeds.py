"""Systems of several trainings: means over seeds, and intervals that know the spread of prompts and of seeds."""

import numpy as np
import pytest

from discodvt.evaluation.comparison import compare_seeds
from discodvt.evaluation.intervals import interval, make_resampler, replicate
from discodvt.evaluation.metric import StoryMean, over_seeds
from discodvt.evaluation.scores import evaluate, evaluate_seeds


def family(per_story: np.ndarray) -> StoryMean:
    return StoryMean(names=("x",), definitions=("x",), per_story=per_story[:, None], unit="tokens")


def crossed(random: np.random.Generator, *, seeds: int, prompts: int, between: float) -> list[StoryMean]:
    """Scores with an effect of the prompt, one of the seed, and noise; their mean is 10."""
    prompt, seed = random.normal(0, 1, prompts), random.normal(0, between, seeds)
    return [family(10 + prompt + shift + random.normal(0, 1, prompts)) for shift in seed]


def ends(members: list[StoryMean], *, seed: int = 0, resampling: str = "bootstrap") -> tuple[float, float]:
    metric = over_seeds(members)
    resampler = make_resampler(len(members[0].per_story), None, resamples=400, seed=seed)
    low, high = interval(metric.values, replicate(metric, resampler), resampling, resampler)
    return float(low[0]), float(high[0])


def test_intervals_over_prompts_and_seeds_cover_where_those_over_prompts_alone_do_not():
    random = np.random.default_rng(0)
    both = alone = 0
    for trial in range(120):
        members = crossed(random, seeds=4, prompts=60, between=0.5)
        low, high = ends(members, seed=trial)
        both += low <= 10 <= high
        low, high = ends([family(np.mean([member.per_story[:, 0] for member in members], axis=0))], seed=trial)
        alone += low <= 10 <= high
    assert both / 120 > 0.85
    assert alone / 120 < 0.75


def test_trainings_that_agree_have_the_interval_of_one():
    members = crossed(np.random.default_rng(1), seeds=1, prompts=50, between=0.0)
    assert ends(members * 3) == pytest.approx(ends(members), abs=1e-12)


def test_the_interval_over_seeds_alone_lies_about_their_mean():
    """Two trainings without any spread of prompts: draws of two are 0, 2 or 4, widened by the root of two."""
    members = [family(np.full(10, value)) for value in (0.0, 4.0)]
    assert ends(members) == pytest.approx((2 - 2 * np.sqrt(2), 2 + 2 * np.sqrt(2)))


@pytest.mark.parametrize("resampling", ["bootstrap", "subsample"])
def test_the_variance_of_seeds_and_of_prompts_add_up(resampling):
    random = np.random.default_rng(2)
    shifts = np.array([-1.0, 0.0, 1.0])
    members = [
        StoryMean(
            names=("x",),
            definitions=("x",),
            per_story=random.normal(shift, 2.0, (400, 1)),
            unit="tokens",
            resampling=resampling,
        )
        for shift in shifts
    ]
    metric = over_seeds(members)
    resampler = make_resampler(400, None, resamples=4000, seed=0)
    spread = replicate(metric, resampler)[:, 0].std() * (resampler.scale if resampling == "subsample" else 1)
    values = np.array([member.values[0] for member in members])
    within = np.mean([member.per_story.var() / 400 for member in members]) * 5 / 9  # of three draws some are the same
    assert spread**2 == pytest.approx(values.var(ddof=1) / 3 + within, rel=0.08)


def stories(seed: int, count: int = 30) -> list[list[str]]:
    random = np.random.default_rng(seed)
    return [[f"w{word}" for word in random.zipf(1.7, 40) % 60] for _ in range(count)]


def test_scores_of_a_system_are_means_over_its_trainings_and_one_training_is_as_before():
    references, trainings = stories(0), [stories(seed) for seed in (1, 2, 3)]
    each = [evaluate(one, references, resamples=20) for one in trainings]
    found = evaluate_seeds(trainings, references, finishes=[None] * 3, resamples=20)
    for name, score in found.items():
        assert score.value == pytest.approx(np.mean([one[name].value for one in each]))
        assert score.low <= score.value <= score.high
        assert "seeds:3" in score.signature
    assert evaluate_seeds(trainings[:1], references, finishes=[None], resamples=20) == each[0]


def test_all_trainings_are_rarefied_to_the_sample_of_the_shortest():
    short = [words[:20] for words in stories(1)]
    found = evaluate_seeds([stories(2), short], stories(0), finishes=[None] * 2, mode="modern", resamples=0)
    assert f"rarefied-to:{30 * 17 // 4}|" in found["LD-4"].signature


def test_a_difference_smaller_than_that_between_seeds_is_not_certain():
    references = stories(0, 80)
    quiet = [[*words[:30], *["the"] * 10] for words in stories(1, 80)]
    noisy = [[[*words[: 30 - cut], *["the"] * (10 + cut)] for words in stories(1, 80)] for cut in (0, 8)]
    certain = compare_seeds([quiet], noisy[1:], references, finishes=([None], [None]), resamples=200)["B-1"]
    unsure = compare_seeds([quiet] * 2, noisy, references, finishes=([None] * 2, [None] * 2), resamples=200)["B-1"]
    assert certain.p_bootstrap < 0.05
    assert unsure.p_bootstrap > certain.p_bootstrap
    assert unsure.high - unsure.low > certain.high - certain.low
