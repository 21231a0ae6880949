"""Simulated studies: without a preference the test rejects seldom, intervals hold the truth as often as they say."""

import json
from pathlib import Path

import numpy as np
import pytest
from unit.judging.toy_study import toy_study

from discodvt.errors import BadRequest
from discodvt.judging.score_stage import score_study
from discodvt.judging.simulation import Preference, decide, draw_votes, power, simulate
from discodvt.judging.study_statistics import holm, kappa_interval, sign_test, win_interval

STUDIES = 1000


@pytest.mark.parametrize("fidelity", [0.0, 0.65, 0.95])
def test_studies_without_preference_reject_in_at_most_6_percent(fidelity: float) -> None:
    none = Preference(win=0.45, tie=0.1, fidelity=fidelity)
    assert power(none, items=100, judges=3, studies=STUDIES) <= 0.06
    assert power(Preference(0.6, 0.1, fidelity), items=100, judges=3, studies=100) >= 0.5


def test_six_tests_together_reject_in_at_most_6_percent() -> None:
    none, numbers = Preference(0.45, 0.1), np.random.default_rng(1)
    wrong = 0
    for _ in range(STUDIES // 2):
        votes = [draw_votes(none, items=60, judges=3, random_numbers=numbers) for _ in range(6)]
        wrong += min(holm([sign_test(decide(each, 3)) for each in votes])) < 0.05
    assert wrong / (STUDIES // 2) <= 0.06


def test_intervals_cover_the_truth_in_93_to_97_percent() -> None:
    wanted, numbers = Preference(win=0.55, tie=0.1, fidelity=0.65), np.random.default_rng(2)
    many = decide(draw_votes(wanted, items=100_000, judges=3, random_numbers=numbers), 3)
    truth = many.win / many.decided
    covered = {"win": 0, "kappa": 0}
    for seed in range(STUDIES):
        votes = draw_votes(wanted, items=100, judges=3, random_numbers=numbers)
        low, high = win_interval(decide(votes, 3))
        covered["win"] += low <= truth <= high
        low, high = kappa_interval(votes, resamples=300, seed=seed)
        covered["kappa"] += low <= wanted.kappa <= high
    assert all(0.93 <= count / STUDIES <= 0.97 for count in covered.values()), covered


def test_a_simulated_study_runs_as_a_real_one_and_is_labelled_everywhere(tmp_path: Path) -> None:
    study = toy_study(tmp_path, systems=3)
    pairs = 24
    answered = simulate(study, Preference(win=0.9, tie=0.0, fidelity=1.0), judges=4, seed=1)
    assert answered == 3 * (pairs + 8)  # the fourth judge finds nothing left
    lines = (study.path / "simulated-answers.jsonl").read_text().splitlines()
    assert all(json.loads(line)["simulated"] is True for line in lines)
    assert not (study.path / "answers.jsonl").exists()
    scores = score_study(study.path, simulated=True)
    assert scores["simulated"] is True
    assert len(scores["kept"]["comparisons"]) == 4
    for each in scores["kept"]["comparisons"]:
        assert each["items"] == each["win"] + each["lose"] + each["tie"] == 12
        assert each["kappa"] in (1, None)  # complete fidelity: all judges say the same
        assert each["open"] == 0
    assert all(not judge["excluded"] for judge in scores["judges"])
    with pytest.raises(BadRequest, match="no answers yet"):
        score_study(study.path)
    with pytest.raises(BadRequest, match="there already"):
        simulate(study, Preference(), judges=1)


def test_simulated_answers_are_never_scored_as_peoples_nor_the_other_way(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    simulate(study, Preference(), judges=1)
    answers = study.path / "simulated-answers.jsonl"
    with pytest.raises(BadRequest, match="a simulated answer among people's"):
        score_study(study.path, answers=answers)
    people = tmp_path / "people.jsonl"
    people.write_text(answers.read_text().replace('"simulated": true', '"simulated": false'))
    with pytest.raises(BadRequest, match="a person's answer among simulated"):
        score_study(study.path, answers=people, simulated=True)
    assert score_study(study.path, answers=people)["simulated"] is False


@pytest.mark.parametrize("shares", [{"win": 1.2}, {"tie": -0.1}, {"win": 0.7, "tie": 0.5}, {"fidelity": 2}])
def test_shares_that_are_none(shares: dict[str, float]) -> None:
    with pytest.raises(BadRequest, match=r"expected 0 to 1|more than 1"):
        Preference(**shares)
