"""Statistics of human studies against statsmodels, krippendorff, and values worked out by hand."""

import krippendorff
import numpy as np
import pytest
from statsmodels.stats.inter_rater import fleiss_kappa as reference_kappa
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from discodvt.judging.simulation import Preference, draw_votes
from discodvt.judging.study_statistics import (
    Tally,
    decided_items_needed,
    fleiss_kappa,
    holm,
    in_words,
    krippendorff_alpha,
    raw_agreement,
    sign_flip,
    sign_test,
    stars,
    win_interval,
)

WIKIPEDIA = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def test_kappa_of_worked_examples() -> None:
    small = np.array([[3, 0, 0], [0, 3, 0], [2, 1, 0], [1, 1, 1]])
    assert raw_agreement(small) == pytest.approx(7 / 12)
    assert fleiss_kappa(small) == pytest.approx(11 / 41)
    known = np.array(WIKIPEDIA)
    assert raw_agreement(known) == pytest.approx(0.3780, abs=5e-5)
    assert fleiss_kappa(known) == pytest.approx(0.2099, abs=5e-5)
    assert fleiss_kappa(np.array([[3, 0, 0], [0, 0, 3]])) == pytest.approx(1)
    assert fleiss_kappa(np.array([[3, 0, 0], [3, 0, 0]])) is None
    assert fleiss_kappa(np.zeros((0, 3), dtype=int)) is None


@pytest.mark.parametrize("seed", range(20))
def test_kappa_and_alpha_are_those_of_the_libraries(seed: int) -> None:
    numbers = np.random.default_rng(seed)
    votes = draw_votes(Preference(0.5, 0.2, 0.7), items=40, judges=3, random_numbers=numbers)
    assert fleiss_kappa(votes) == pytest.approx(reference_kappa(votes))
    assert krippendorff_alpha(votes) == pytest.approx(
        krippendorff.alpha(value_counts=votes, level_of_measurement="nominal")
    )
    missing = votes.copy()
    missing[::3] = numbers.multinomial(1, [1 / 3] * 3, size=len(missing[::3]))  # one vote: cannot be paired
    missing[1::4, 0] = 0
    assert krippendorff_alpha(missing) == pytest.approx(
        krippendorff.alpha(value_counts=missing, level_of_measurement="nominal")
    )


def test_alpha_without_anything_to_compare() -> None:
    assert krippendorff_alpha(np.array([[1, 0, 0], [0, 1, 0]])) is None
    assert krippendorff_alpha(np.array([[3, 0, 0], [3, 0, 0]])) is None


@pytest.mark.parametrize(
    ("win", "lose", "one", "two"),
    [(53, 35, 0.0347, 0.0693), (5, 0, 0.03125, 0.0625), (10, 10, 0.5881, 1), (0, 0, 1, 1)],
)
def test_sign_test_of_worked_examples(win: int, lose: int, one: float, two: float) -> None:
    for ties in (0, 12):
        assert sign_test(Tally(win, lose, ties), sides="one") == pytest.approx(one, abs=5e-5)
        assert sign_test(Tally(win, lose, ties)) == pytest.approx(two, abs=5e-5)


@pytest.mark.parametrize(("n", "star", "double"), [(80, 50, 52), (100, 61, 64), (300, 168, 173)])
def test_least_wins_for_stars(n: int, star: int, double: int) -> None:
    marks = {win: stars(sign_test(Tally(win, n - win, 0))) for win in (star - 1, star, double - 1, double)}
    assert marks == {star - 1: "", star: "*", double - 1: "*", double: "**"}


def test_the_papers_stars_need_the_one_sided_test_over_single_judgements() -> None:
    table = {("BART", "c"): (53, 35), ("BART", "i"): (52, 36), ("LM", "c"): (54, 40), ("LM", "i"): (49, 39)}
    table |= {("CVAE", "c"): (53, 34), ("CVAE", "i"): (53, 38)}
    items = {key: stars(sign_test(Tally(win, lose, 0))) for key, (win, lose) in table.items()}
    pooled = {key: stars(sign_test(Tally(3 * win, 3 * lose, 0), sides="one")) for key, (win, lose) in table.items()}
    assert set(items.values()) == {""}
    assert pooled == dict.fromkeys(table, "**") | {("LM", "i"): "*"}


def test_holm_is_that_of_statsmodels() -> None:
    numbers = np.random.default_rng(0)
    for _ in range(3):  # a call takes statsmodels half a second
        p_values = (numbers.random(30) ** 3).tolist()
        assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())
    assert holm([]) == []


@pytest.mark.parametrize(("win", "lose"), [(60, 40), (5, 0), (0, 7), (1, 1)])
def test_the_interval_of_wins_is_wilsons(win: int, lose: int) -> None:
    expected = proportion_confint(win, win + lose, method="wilson")
    assert win_interval(Tally(win, lose, 3)) == pytest.approx(expected)
    assert win_interval(Tally(0, 0, 3)) is None


def test_flipping_items_sees_that_judges_of_an_item_agree() -> None:
    """Thirty items, three judges who say the same: 60 pooled wins of 90 look certain, 20 items of 30 do not."""
    votes = np.array([[3, 0, 0]] * 20 + [[0, 3, 0]] * 10)
    assert sign_test(Tally(60, 30, 0)) < 0.01
    exact = sign_test(Tally(20, 10, 0))
    assert sign_flip(votes, flips=20_000, seed=0) == pytest.approx(exact, abs=0.01)


def test_words_of_landis_and_koch() -> None:
    said = [in_words(kappa) for kappa in (-0.1, 0.2, 0.21, 0.4, 0.5, 0.8, 0.9)]
    assert said == ["poor", "slight", "fair", "fair", "moderate", "substantial", "almost perfect"]


@pytest.mark.parametrize(("share", "needed"), [(0.7, 54), (0.65, 97), (0.6, 210)])
def test_items_needed_have_the_power_from_there_on(share: float, needed: int) -> None:
    numbers = np.random.default_rng(0)
    assert decided_items_needed(share) == needed
    for n, enough in ((needed, True), (int(0.8 * needed), False)):
        wins = numbers.binomial(n, share, size=4000)
        found = {win: sign_test(Tally(int(win), int(n - win), 0)) < 0.05 for win in set(wins.tolist())}
        assert (sum(found[win] for win in wins.tolist()) / len(wins) > 0.785) is enough
