"""Scores of a study: majorities, exclusion by the rule, missing votes, side bias, files; answers of another study."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unit.judging.toy_study import OURS, RIVAL, toy_study

from discodvt.errors import BadRequest
from discodvt.judging.answers import Answer, Choice, now
from discodvt.judging.make_stage import StudyDirectory
from discodvt.judging.score_stage import JUDGEMENTS, score_answers, score_study
from discodvt.judging.study_statistics import majority
from discodvt.report.human_section import human_summary, write_human_tables
from discodvt.report.report_stage import write_report

SLOW = 10**6


def answer(
    study: StudyDirectory, judge: str, item: str, chosen: str, *, ms: int = SLOW, left: str = "first"
) -> list[Answer]:
    """Both questions answered alike, by what is chosen: first, second or tie."""
    choice: Choice = "tie" if chosen == "tie" else "left" if chosen == left else "right"
    return [
        Answer(study.hash, judge, item, question.id, left, 0, choice, ms, now())  # type: ignore[arg-type]
        for question in study.study.questions
    ]


def wins(study: StudyDirectory, item: str) -> str:
    return study.key[item].ours


def loses(study: StudyDirectory, item: str) -> str:
    return "second" if study.key[item].ours == "first" else "first"


def judged(
    study: StudyDirectory, judge: str, verdict: Callable[[StudyDirectory, str], str], **how: Any
) -> list[Answer]:
    """A judge of all items who passes all checks."""
    checks = [each for item in study.checks for each in answer(study, judge, item, study.key[item].expected, **how)]
    return checks + [each for item in study.pairs for each in answer(study, judge, item, verdict(study, item), **how)]


@pytest.mark.parametrize(
    ("votes", "judges", "decision"),
    [
        ((2, 1, 0), 3, "win"), ((0, 3, 0), 3, "lose"), ((0, 1, 2), 3, "tie"), ((1, 1, 1), 3, "split"),
        ((2, 0, 0), 3, "win"), ((1, 1, 0), 3, "open"), ((1, 0, 0), 3, "open"), ((0, 0, 0), 3, "open"),
        ((1, 0, 0), 1, "win"), ((1, 1, 0), 2, "split"), ((3, 2, 0), 5, "win"), ((2, 2, 1), 5, "split"),
    ],
)  # fmt: skip
def test_majorities(votes: tuple[int, int, int], judges: int, decision: str) -> None:
    assert majority(votes, judges) == decision


def test_two_of_three_decide_whatever_side_they_saw(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    answers = [
        each for judge in "ab" for each in judged(study, judge, wins, left="first" if judge == "a" else "second")
    ]
    scores = score_answers(study, [*answers, *judged(study, "c", loses)])
    for each in scores["kept"]["comparisons"]:
        assert (each["win"], each["lose"], each["tie"], each["items"]) == (12, 0, 0, 12)
        assert each["p"] == pytest.approx(2 / 2**12)
        assert each["p_holm"] == pytest.approx(2 * each["p"])
        assert each["stars"] == "**"
        assert each["paper_reading"]["win"] == 24
        assert each["agreement"] == pytest.approx(1 / 3)
    assert scores["kept"]["side_bias"]["coherence"]["share"] == pytest.approx(0.5)


def test_splits_are_ties_open_items_are_left_out_and_kappa_is_over_items_with_all_votes(tmp_path: Path) -> None:
    """Items with votes (win, lose, tie): 6 of (3, 0, 0), one of (1, 1, 1), one of (2, 0, 0), one of (1, 1, 0)."""
    study = toy_study(tmp_path)
    votes = dict.fromkeys(study.pairs[:6], ("wins", "wins", "wins"))
    votes |= dict(zip(study.pairs[6:9], [("wins", "loses", "tie"), ("wins", "wins"), ("wins", "loses")], strict=True))
    verdicts = {"wins": wins, "loses": loses, "tie": lambda *_: "tie"}
    answers = [
        each
        for item, cast in votes.items()
        for judge, vote in zip("abc", cast, strict=False)
        for each in answer(study, judge, item, verdicts[vote](study, item))
    ]
    found = score_answers(study, answers)["kept"]["comparisons"][0]
    assert {name: found[name] for name in ("win", "lose", "tie", "splits", "open", "items")} == {
        "win": 7, "lose": 0, "tie": 1, "splits": 1, "open": 1 + 3, "items": 8
    }  # fmt: skip
    assert found["kappa_items"] == 7
    assert found["agreement"] == pytest.approx(6 / 7)
    alike = (19 / 21) ** 2 + 2 * (1 / 21) ** 2  # by chance
    assert found["kappa"] == pytest.approx((6 / 7 - alike) / (1 - alike))


def test_a_judge_who_fails_checks_or_cannot_have_read_is_excluded_by_rule_and_shown_with_and_without(
    tmp_path: Path,
) -> None:
    study = toy_study(tmp_path)
    good = [each for judge in "ab" for each in judged(study, judge, wins)]
    fast = judged(study, "fast", loses, ms=10)
    careless = [
        each
        for item in [*study.checks, *study.pairs]
        for each in answer(study, "careless", item, "first")
    ]  # fmt: skip
    scores = score_answers(study, [*good, *fast, *careless])
    reasons = {judge["judge"]: judge["excluded"] for judge in scores["judges"]}
    assert reasons["a"] == reasons["b"] == ""
    assert reasons["fast"] == "12 of 12 items too fast to be read"
    assert "checks passed" in reasons["careless"]
    kept, everybody = (scores[which]["comparisons"][0] for which in ("kept", "all"))
    assert (kept["win"], kept["open"], scores["kept"]["judges"]) == (12, 0, 2)  # two of three already decide
    assert kept["kappa"] is None  # of no item are there three votes
    assert kept["alpha"] is None
    assert scores["all"]["judges"] == 4
    assert everybody["paper_reading"]["lose"] == 12  # the first three votes of an item count


def test_a_correction_replaces_the_answer_and_not_the_time(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    corrected = [*judged(study, "a", loses), *judged(study, "a", wins, ms=1)]
    scores = score_answers(study, corrected)
    assert scores["all"]["comparisons"][0]["paper_reading"]["win"] == 12
    assert scores["all"]["comparisons"][0]["paper_reading"]["lose"] == 0
    assert scores["judges"][0]["fast"] == 0


def test_always_left_is_a_side_bias_and_no_preference(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    answers = [
        each
        for number, judge in enumerate("abc")
        for item in study.pairs
        for each in answer(study, judge, item, ("first", "second")[number % 2], left=("first", "second")[number % 2])
    ]
    scores = score_answers(study, answers)
    assert scores["all"]["side_bias"]["coherence"] == pytest.approx({"left": 36, "n": 36, "share": 1.0, "p": 2 / 2**36})
    assert scores["all"]["comparisons"][0]["p"] == 1.0


def write_answers(path: Path, answers: list[Answer]) -> None:
    from dataclasses import asdict

    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in answers))


def test_files_of_a_score_and_its_place_in_a_report(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    answers = [*judged(study, "a", wins), *judged(study, "b", wins), *judged(study, "c", loses)]
    write_answers(study.path / "answers.jsonl", answers)
    scores = score_study(study.path)
    assert score_study(study.path) == scores  # again, over what is there
    rows = list(csv.DictReader((study.path / "scores" / JUDGEMENTS).read_text().splitlines()))
    assert len(rows) == len(answers)
    assert {row["outcome"] for row in rows} == {"win", "lose", "passed"}
    assert {(row["ours"], row["rival"]) for row in rows if row["kind"] == "pair"} == {(OURS, RIVAL)}
    written = {path.name: path.read_text() for path in write_human_tables(study.path / "scores", scores)}
    assert f"| {RIVAL} | 1.00\\*\\* | 0.00 | 0.00 |" in written["human.md"]
    assert "Coherence Win" in written["human.md"]
    assert r"\multicolumn{4}{c}{Coherence}" in written["human.tex"]
    assert r"$\kappa$" in written["human.tex"]
    assert "SIMULATED" not in "".join(written.values()) + human_summary(scores)
    found = write_report([f"study={study.path / 'scores'}"], tmp_path / "report")
    assert found["sections"] == ["human"]
    assert found["tables"] == ["human", "human_tests", "human_judges"]


def test_simulated_scores_say_so_in_every_table_and_page(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    scores = score_answers(study, judged(study, "a", wins), simulated=True)
    for path in write_human_tables(tmp_path, scores):
        assert "SIMULATED" in path.read_text(), path
    assert human_summary(scores).startswith("SIMULATED")


def test_names_of_systems_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    scores = score_answers(study, judged(study, "a", wins))
    evil = "<img src=x onerror=alert(1)>"
    text = json.dumps(scores).replace(OURS, evil).replace(RIVAL, r"\\input{x} $ & | `")
    for path in write_human_tables(tmp_path, json.loads(text)):
        written = path.read_text()
        assert evil not in written or path.suffix == ".tex"
        assert r"\input{x}" not in written or path.suffix != ".tex"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line | {"study": "x"}, "an answer of another study"),
        (lambda line: line | {"item": "x"}, "no answer of this study"),
        (lambda line: line | {"question": "x"}, "no answer of this study"),
        (lambda line: line | {"choice": "best"}, "no answer of this study"),
        (lambda line: line | {"ms": "5"}, "ms is missing or of another kind"),
        (lambda line: {key: value for key, value in line.items() if key != "left"}, "left is missing"),
        (lambda line: 5, "an answer of another study"),
    ],
)
def test_an_answer_file_that_is_not_of_this_study_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    study = toy_study(tmp_path)
    path = tmp_path / "given.jsonl"
    write_answers(path, judged(study, "a", wins))
    lines = path.read_text().splitlines()
    lines[4] = json.dumps(change(json.loads(lines[4])))
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(BadRequest, match=f"given.jsonl:5: .*{message}"):
        score_study(study.path, answers=path)
    assert not (study.path / "scores").exists()


def test_no_answers_yet_is_one_line(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    with pytest.raises(BadRequest, match="no answers yet; collect some"):
        score_study(study.path)
    with pytest.raises(BadRequest, match="no such file"):
        score_study(study.path, answers=tmp_path / "none.jsonl")
    (study.path / "answers.jsonl").write_text("")
    with pytest.raises(BadRequest, match="no answers yet; let judges"):
        score_study(study.path)
