"""Simulated judges: a whole study answered by chance, to plan its size and to test the machinery. Never for results.

Each item has a verdict drawn from the shares of wins, losses and ties; a judge gives it with probability `fidelity` and
else draws his own from the same shares. Two judges so agree beyond chance with kappa = fidelity squared. Their answers
are files of their own (`simulated-answers.jsonl`), every line says `simulated`, no command reads them with people's.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discodvt.errors import BadRequest
from discodvt.evaluation.metric import Ints
from discodvt.judging.answers import ANSWERS, SIMULATED, Choice
from discodvt.judging.make_stage import StudyDirectory
from discodvt.judging.session import Session, Task
from discodvt.judging.study_statistics import Tally, majority, sign_test

MS_PER_WORD = 200


@dataclass(frozen=True, slots=True)
class Preference:
    """What simulated judges think of our system: shares of wins and ties; the rest are losses."""

    win: float = 0.5
    tie: float = 0.1
    fidelity: float = 0.65

    def __post_init__(self) -> None:
        for name in ("win", "tie", "fidelity"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadRequest(f"`{name}` {getattr(self, name)}: expected 0 to 1", name)
        if self.win + self.tie > 1:
            raise BadRequest(f"`win` {self.win} and `tie` {self.tie}: together more than 1", ("win", "tie"))

    @property
    def shares(self) -> tuple[float, float, float]:
        return self.win, max(0.0, 1 - self.win - self.tie), self.tie

    @property
    def kappa(self) -> float:
        return self.fidelity**2


def simulate(study: StudyDirectory, preference: Preference, *, judges: int, seed: int = 0) -> int:
    """Let simulated judges answer the study through the same session as people; returns the number of items judged."""
    path = study.path / f"{SIMULATED}{ANSWERS}"
    if path.exists() and path.stat().st_size:
        raise BadRequest(
            f"{path}: simulated answers are there already; remove it and {SIMULATED}judges.jsonl to start over"
        )
    now = [0.0]
    session = Session(study, simulated=True, clock=lambda: now[0])
    answered = 0
    try:
        for number in range(judges):
            judge = session.join()
            while isinstance(task := session.next(judge), Task):
                now[0] += task.item.words * MS_PER_WORD / 1000
                session.answer(judge, task.item.id, _choices(study, task, preference, seed, number), ms=10**9)
                answered += 1
    finally:
        session.close()
    return answered


def _choices(study: StudyDirectory, task: Task, preference: Preference, seed: int, judge: int) -> dict[str, Choice]:
    key = study.key[task.item.id]
    chosen = {}
    for question in study.study.questions:
        shared = random.Random(f"{seed} {task.item.id} {question.id}")
        own = random.Random(f"{seed} {task.item.id} {question.id} {judge}")
        drawn = own if own.random() >= preference.fidelity else shared
        win, lose, tie = preference.shares
        verdict = drawn.choices(("win", "lose", "tie"), (win, lose, tie if question.tie else 0.0))[0]
        wanted: str = key.expected
        if key.kind == "pair":
            other = "second" if key.ours == "first" else "first"
            wanted = "tie" if verdict == "tie" else key.ours if verdict == "win" else other
        side: Choice = "tie" if wanted == "tie" else "left" if wanted == task.left else "right"
        chosen[question.id] = side if side != "tie" or question.tie else own.choice(("left", "right"))
    return chosen


def draw_votes(preference: Preference, *, items: int, judges: int, random_numbers: np.random.Generator) -> Ints:
    """The votes of one simulated question, [items, 3]: the same judges, without a study around them."""
    shares = np.array(preference.shares)
    verdicts = random_numbers.choice(3, size=(items, 1), p=shares)
    own = random_numbers.choice(3, size=(items, judges), p=shares)
    votes = np.where(random_numbers.random((items, judges)) < preference.fidelity, verdicts, own)
    return np.stack([(votes == kind).sum(axis=1) for kind in range(3)], axis=1)


def decide(votes: Ints, judges: int) -> Tally:
    """The majority decisions of votes."""
    found = [majority(row, judges) for row in votes.tolist()]
    return Tally(found.count("win"), found.count("lose"), found.count("tie") + found.count("split"))


def power(
    preference: Preference, *, items: int, judges: int, studies: int = 1000, seed: int = 0, level: float = 0.05
) -> float:
    """The share of simulated studies whose two-sided sign test over items is below `level`."""
    numbers = np.random.default_rng(seed)
    p_values: Sequence[float] = [
        sign_test(decide(draw_votes(preference, items=items, judges=judges, random_numbers=numbers), judges))
        for _ in range(studies)
    ]
    return sum(p < level for p in p_values) / studies
