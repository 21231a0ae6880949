"""Shares, entropy, divergence and macro-accuracy against closed forms and the paper's own numbers."""

import numpy as np
import pytest

from discodvt.discourse import CATEGORIES, MARKERS
from discodvt.evaluation.discourse.marker_pairs import Pair, PairedStory
from discodvt.evaluation.discourse.relation_scores import (
    accuracy_scores,
    compare_marker_counts,
    count_markers,
    divergence_score,
    entropy_bits,
    kl_bits,
    score_marker_counts,
)
from discodvt.evaluation.matching import StoryLine

# Shares of concession, causal, temporal and conjunction, and their entropy, as printed in the paper (percent, bits).
GOLDEN = (2.28, 2.56, 29.06, 66.10)
PRINTED = {
    "golden": (GOLDEN, 1.17),
    "BART": ((0.84, 1.66, 23.37, 74.13), 0.97),
    "BART-LM": ((0.56, 1.66, 24.30, 73.49), 0.96),
    "BART-CVAE": ((0.20, 1.70, 14.07, 84.02), 0.73),
    "DiscoDVT": ((1.86, 2.59, 28.94, 66.61), 1.15),
    "w/o disc": ((1.74, 2.10, 27.44, 68.73), 1.10),
}


def distribution(percent: tuple[float, ...]) -> np.ndarray:
    return np.array(percent) / sum(percent)


@pytest.mark.parametrize("system", PRINTED)
def test_entropy_is_the_papers(system):
    shares, printed = PRINTED[system]
    assert entropy_bits(distribution(shares)) == pytest.approx(printed, abs=0.01)


@pytest.mark.parametrize(
    ("system", "printed"),
    # Of DiscoDVT the paper prints 0.0032, which is the value of the row without the discourse loss.
    [("BART", 0.0308), ("BART-LM", 0.0364), ("BART-CVAE", 0.1700), ("w/o disc", 0.0032), ("DiscoDVT", 0.0007)],
)
def test_divergence_is_the_papers(system, printed):
    found = kl_bits(distribution(GOLDEN), distribution(PRINTED[system][0]))
    assert found == pytest.approx(printed, abs=0.0005)  # the shares are printed to four digits


def test_a_category_never_used_leaves_the_divergence_finite():
    human = np.ones(len(MARKERS))
    unused = np.array([[float(marker != "although") for marker in MARKERS]])
    (found,) = divergence_score(unused, human).values
    model = np.array([0.5, 2, 4, 3]) / 9.5
    assert found == pytest.approx(kl_bits(np.array([1, 2, 4, 3]) / 10, model))
    assert np.isfinite(found)


def test_the_same_counts_diverge_by_nothing_also_where_a_category_is_unused():
    """41 pairs of three categories: half a pair for the fourth made 0.0175 bits of human stories against themselves."""
    counts = np.array([[41.0 / 3 * (marker in ("so", "then", "and")) for marker in MARKERS]])
    assert divergence_score(counts, counts.sum(axis=0)).values == pytest.approx([0])


def stories(*markers: str, count: int = 1) -> list[PairedStory]:
    told = [StoryLine(f"line {n}", str(n), f"{markers} {n}", "text") for n in range(count)]
    return [PairedStory(each, [Pair("a", "b", marker) for marker in markers]) for each in told]


def predicted(*markers: str, count: int = 1) -> np.ndarray:
    return np.array([MARKERS.index(marker) for marker in markers] * count)


def test_macro_accuracy_is_the_mean_over_markers_not_over_pairs():
    counted = count_markers(stories("and", "and", "and", "also", "so"), predicted("and", "and", "so", "and", "so"))
    scores = dict(zip((found := accuracy_scores(counted.right, counted.total)).names, found.values, strict=True))
    assert scores == pytest.approx(
        {
            "accuracy": (2 / 3 + 0 + 1) / 3,
            "accuracy-causal": 1.0,
            "accuracy-conjunction": (2 / 3 + 0) / 2,
            "accuracy-so": 1.0,
            "accuracy-and": 2 / 3,
            "accuracy-also": 0.0,
        }
    )
    assert "macro-accuracy:and+also|pairs:4" in found.definitions


def test_every_score_has_interval_count_and_signature():
    told = stories("and", count=7) + stories("so", "although", count=7)
    found = predicted("and", count=7).tolist() + predicted("so", "and", count=7).tolist()
    counted = count_markers(told, np.array(found))
    scores = score_marker_counts([counted], counted, resamples=60, seed=2)
    for score in scores.values():
        assert score.low <= score.value + 1e-12
        assert score.value <= score.high + 1e-12
        assert score.n == 14
        assert "seed:2" in score.signature
    assert {name: scores[f"share-{name}"].value for name in CATEGORIES} == pytest.approx(
        {"concession": 1 / 3, "causal": 1 / 3, "temporal": 0, "conjunction": 1 / 3}
    )
    assert scores["entropy"].value == pytest.approx(np.log2(3))
    assert (scores["entropy"].unit, scores["entropy"].direction) == ("bits", "higher")
    assert (scores["KL"].direction, scores["accuracy"].direction) == ("lower", "higher")
    assert scores["accuracy"].value == pytest.approx(2 / 3)


def test_a_resample_without_a_marker_takes_its_accuracy_over_all_stories():
    told = [*stories("and", count=19), *stories("and", "so")]
    counted = count_markers(told, predicted(*["and"] * 20, "so"))
    scores = score_marker_counts([counted], counted, resamples=100, seed=0)
    assert {name: scores[name].low for name in ("accuracy", "accuracy-so")} == {"accuracy": 1, "accuracy-so": 1}


def test_one_story_has_scores_but_no_interval():
    counted = count_markers(stories("and", "so"), predicted("and", "and"))
    scores = score_marker_counts([counted], counted, resamples=100, seed=0)
    assert scores["accuracy"].value == 0.5
    assert all(score.low is None and "interval:none" in score.signature for score in scores.values())


def test_two_systems_are_compared_over_the_markers_both_have():
    ours = count_markers(stories("and", "so", count=20), predicted("and", "so", count=20))
    theirs = count_markers(stories("and", "then", count=20), predicted("then", "then", count=20))
    compared = compare_marker_counts([ours], [theirs], ours, resamples=50, seed=0)
    assert compared["accuracy"].difference == 1.0  # `and` alone
    assert "accuracy-so" not in compared
    assert compared["share-temporal"].difference == -0.5


def test_systems_that_share_no_marker_have_no_accuracy_and_all_other_scores():
    """The mean over no marker at all ended `discourse score --against`, and scores of two seeds, in a traceback."""
    ours = count_markers(stories("and", count=20), predicted("and", count=20))
    theirs = count_markers(stories("so", count=20), predicted("so", count=20))
    compared = compare_marker_counts([ours], [theirs], ours, resamples=50, seed=0)
    seeds = score_marker_counts([ours, theirs], ours, resamples=50, seed=0)
    for found in (compared, seeds):
        assert not any(name.startswith("accuracy") for name in found)
        assert {"share-causal", "entropy", "KL"} <= found.keys()
    assert compared["share-causal"].difference == -1.0


def test_an_accuracy_of_too_few_pairs_is_not_tested():
    few, enough = (
        compare_marker_counts(
            [count_markers(stories("and", count=count), predicted("and", count=count))],
            [count_markers(stories("and", count=count), predicted("so", count=count))],
            count_markers(stories("and", count=count), predicted("and", count=count)),
            resamples=50,
            seed=0,
        )["accuracy-and"]
        for count in (19, 20)
    )
    assert (few.difference, few.p_t_test, few.p_bootstrap, few.stars) == (1.0, None, None, "")
    assert few.a.too_few == "19 pairs, at least 20 are needed"
    assert enough.stars == "**"
