"""Judging: sides, orders and checks; leases; corrections; nothing lost by a kill or a restart."""

import json
from collections import Counter
from pathlib import Path

import pytest
from unit.judging.toy_study import toy_study

from discodvt.errors import BadRequest, WorkFailed
from discodvt.judging.answers import read_answers
from discodvt.judging.make_stage import StudyDirectory
from discodvt.judging.session import LEASE_SECONDS, ItemTaken, Session, Task, UnknownJudge

BOTH = {"coherence": "left", "informativeness": "tie"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def judge_all(session: Session, judge: str) -> list[Task]:
    done = []
    while isinstance(task := session.next(judge), Task):
        done.append(task)
        session.answer(judge, task.item.id, BOTH, ms=9000)
    assert task == "done"
    return done


def ours_left(study: StudyDirectory, tasks: list[Task]) -> Counter[str]:
    return Counter(
        study.key[task.item.id].rival for task in tasks if study.key[task.item.id].ours == task.left
        and study.key[task.item.id].kind == "pair"
    )  # fmt: skip


def test_every_judge_has_each_system_on_the_left_in_half_and_an_order_of_his_own(tmp_path: Path) -> None:
    study = toy_study(tmp_path, systems=3)
    session = Session(study)
    seen = [judge_all(session, session.join()) for _ in range(3)]
    for tasks in seen:
        assert len(tasks) == session.total == 24 + 8
        assert set(ours_left(study, tasks).values()) == {6}
        checks = [number for number, task in enumerate(tasks) if study.key[task.item.id].kind != "pair"]
        assert [number // 4 for number in checks] == list(range(8))  # one in every four, not always the same place
        assert len({number % 4 for number in checks}) > 1
    orders = {tuple(task.item.id for task in tasks) for tasks in seen}
    assert len(orders) == 3
    sides = {item: [next(t.left for t in tasks if t.item.id == item) for tasks in seen] for item in study.pairs}
    assert all(sorted(each) == ["first", "first", "second"] for each in sides.values())
    session.close()


def test_an_item_is_judged_by_as_many_as_were_asked_for(tmp_path: Path) -> None:
    study = toy_study(tmp_path, extra="judges_per_item = 2\nitems_per_judge = 5")
    session = Session(study)
    total = 0
    for _ in range(10):
        total += sum(study.key[task.item.id].kind == "pair" for task in judge_all(session, session.join()))
    assert total == 24
    held = read_answers(study.path / "answers.jsonl", study, simulated=False)
    votes = Counter(answer.item for answer in held if answer.question == "coherence" and answer.item in study.pairs)
    assert set(votes.values()) == {2}
    session.close()


def test_an_item_at_hand_is_leased_and_free_again_after_twenty_minutes(tmp_path: Path) -> None:
    clock = Clock()
    study = toy_study(tmp_path, extra="judges_per_item = 1", sections="", count=1)
    session = Session(study, clock=clock)
    slow, quick = session.join(), session.join()
    while study.key[session.next(slow).item.id].kind != "pair":
        session.answer(slow, session.next(slow).item.id, BOTH, ms=1)
    item = session.next(slow).item.id
    while isinstance(task := session.next(quick), Task):
        assert task.item.id != item
        session.answer(quick, task.item.id, BOTH, ms=1)
    assert task == "wait"
    clock.now += LEASE_SECONDS + 1
    assert session.next(quick).item.id == item
    session.answer(quick, item, BOTH, ms=1)
    with pytest.raises(ItemTaken):
        session.answer(slow, item, BOTH, ms=1)
    lines = (study.path / "answers.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["item"] == item for line in lines) == 2  # one for each question
    session.close()


def test_a_late_answer_counts_as_long_as_nobody_took_the_item(tmp_path: Path) -> None:
    clock = Clock()
    session = Session(toy_study(tmp_path), clock=clock)
    judge = session.join()
    item = session.next(judge).item.id
    clock.now += 10 * LEASE_SECONDS
    session.answer(judge, item, BOTH, ms=1)
    assert session.earlier(judge, 0).item.id == item
    session.close()


def test_a_judge_comes_back_to_where_he_was_also_after_a_restart(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    session = Session(study)
    other, judge = session.join(), session.join()
    judge_all(session, other)
    for _ in range(5):
        session.answer(judge, session.next(judge).item.id, BOTH, ms=1)
    at_hand = session.next(judge)
    assert session.next(judge) == at_hand  # asking again changes nothing
    session.close()
    with (study.path / "answers.jsonl").open("a") as file:
        file.write('{"study": "cut in the midd')  # what a kill leaves of a line
    again = Session(study)
    assert again.next(judge) == at_hand
    assert at_hand.position == 5
    assert again.next(other) == "done"
    assert again.join() not in (judge, other)
    again.answer(judge, at_hand.item.id, BOTH, ms=1)
    again.close()
    assert len(read_answers(study.path / "answers.jsonl", study, simulated=False)) == 2 * (16 + 6)


def test_a_correction_is_a_new_line(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    session = Session(study)
    judge = session.join()
    item = session.next(judge).item.id
    session.answer(judge, item, BOTH, ms=1)
    second = session.next(judge)
    session.answer(judge, item, {"coherence": "right", "informativeness": "left"}, ms=1)
    assert session.earlier(judge, 0).answers == {"coherence": "right", "informativeness": "left"}
    assert session.next(judge) == second
    lines = [json.loads(line) for line in (study.path / "answers.jsonl").read_text().splitlines()]
    assert [(line["position"], line["choice"]) for line in lines] == [
        (0, "left"),
        (0, "tie"),
        (0, "right"),
        (0, "left"),
    ]
    session.close()


def test_answers_hold_no_more_than_they_should(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    session = Session(study, clock=Clock())
    judge = session.join()
    session.answer(judge, session.next(judge).item.id, BOTH, ms=10**9)
    line = json.loads((study.path / "answers.jsonl").read_text().splitlines()[0])
    assert set(line) == set("study judge item question left position choice ms time simulated".split())
    assert line["ms"] == 0  # not longer than the server itself waited
    assert (study.path / "answers.jsonl").stat().st_mode & 0o077 == 0
    session.close()


def test_an_answer_that_a_full_disk_takes_half_of_is_refused_and_can_be_given_again(tmp_path: Path) -> None:
    """Half a line was kept without an error, the next answer was joined to it, and the file could not be read again."""
    resource = pytest.importorskip("resource")
    study = toy_study(tmp_path)
    session = Session(study)
    judge = session.join()
    first, path = session.next(judge), study.path / "answers.jsonl"
    session.answer(judge, first.item.id, BOTH, ms=9000)
    kept, item = path.read_bytes(), session.next(judge).item.id
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept) + 300, limits[1]))  # one line and a part of the other
    try:
        with pytest.raises(WorkFailed, match=r"answers\.jsonl: not written \(File too large\)"):
            session.answer(judge, item, BOTH, ms=9000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == kept
    session.answer(judge, item, BOTH, ms=9000)
    assert [answer.item for answer in read_answers(path, study, simulated=False)] == [first.item.id] * 2 + [item] * 2
    session.close()


def test_strangers_and_items_of_others_are_refused(tmp_path: Path) -> None:
    session = Session(toy_study(tmp_path))
    judge = session.join()
    for wrong in ("", "x" * 22):
        with pytest.raises(UnknownJudge):
            session.next(wrong)
    with pytest.raises(ItemTaken):
        session.answer(judge, "no such item", BOTH, ms=1)
    with pytest.raises(ItemTaken):
        session.earlier(judge, 0)
    assert (session.study.path / "answers.jsonl").read_bytes() == b""
    session.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"study": "of another"}', "an answer of another study"),
        ("[1]", "an answer of another study"),
        ("{", "not JSON"),
    ],
)
def test_a_file_of_another_study_is_refused_and_stays(tmp_path: Path, line: str, message: str) -> None:
    study = toy_study(tmp_path)
    path = study.path / "answers.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(BadRequest, match=f"answers.jsonl:1: {message}"):
        Session(study).close()
    assert path.read_text() == line + "\n"
