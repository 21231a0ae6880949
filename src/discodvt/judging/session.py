"""Who judges what: each judge's own order, sides and checks; leases, so that an item is not judged too often.

A judge's order follows from the seed of the study and the judge's number, so a judge who comes back, also after the
server was stopped, goes on where he was. Sides: ours is first in half of each rival's items; judges with an even number
see `first` on the left, the others on the right. A judge of all items so has each system on the left in half of them,
and of the judges of an item those with even and odd numbers see it both ways.
"""

import random
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from discodvt.judging.answers import (
    ANSWERS,
    JUDGES,
    SIMULATED,
    Answer,
    Choice,
    GrowingFile,
    Judge,
    now,
    read_answers,
    read_judges,
)
from discodvt.judging.make_stage import Item, Place, StudyDirectory

LEASE_SECONDS = 20 * 60
WAIT_SECONDS = 30


class UnknownJudge(LookupError):
    """No judge of this study has the id."""


class ItemTaken(LookupError):
    """The item is not the judge's: never given, or judged by enough others since."""


@dataclass(frozen=True, slots=True)
class Task:
    """An item as one judge sees it; `answers` are his own, where he comes back to it."""

    item: Item
    left: Place
    position: int
    answers: dict[str, Choice] = field(default_factory=dict)

    @property
    def texts(self) -> tuple[str, str]:
        both = (self.item.first, self.item.second)
        return both if self.left == "first" else (both[1], both[0])


@dataclass(slots=True)
class _Given:
    """What one judge has done: items in the order they were answered, and the one at hand."""

    judge: Judge
    answered: dict[str, dict[str, Choice]] = field(default_factory=dict)
    current: str | None = None
    since: float = 0.0


class Session:
    """A study at work; reads what was answered before, and writes every answer down before it counts."""

    def __init__(
        self, study: StudyDirectory, *, simulated: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.study = study
        self.simulated = simulated
        self.clock = clock
        prefix = SIMULATED if simulated else ""
        answers, judges = study.path / f"{prefix}{ANSWERS}", study.path / f"{prefix}{JUDGES}"
        self._given: dict[str, _Given] = {}
        self._judged: dict[str, set[str]] = defaultdict(set)  # item -> judges who answered it
        self._leased: dict[str, dict[str, float]] = defaultdict(dict)  # item -> judge -> until
        self._orders: dict[str, tuple[list[str], list[str], list[bool]]] = {}
        for judge in read_judges(judges, study):
            self._given[judge.judge] = _Given(judge)
        for answer in read_answers(answers, study, simulated=simulated):
            if answer.judge in self._given:
                self._note(answer)
        self._answers, self._judges = GrowingFile(answers), GrowingFile(judges)

    def close(self) -> None:
        self._answers.close()
        self._judges.close()

    def join(self) -> str:
        """A new judge, who has agreed; returns his id, which only he knows."""
        judge = Judge(self.study.hash, secrets.token_urlsafe(16), len(self._given), now(), self.simulated)
        self._judges.append([judge], sync=not self.simulated)
        self._given[judge.judge] = _Given(judge)
        return judge.judge

    @property
    def total(self) -> int:
        """How many items a judge sees, checks included."""
        pairs = min(self.study.study.items_per_judge or len(self.study.pairs), len(self.study.pairs))
        every = self.study.study.checks.every
        return pairs + (min(-(-pairs // (every - 1)), len(self.study.checks)) if every else 0)

    def next(self, judge: str) -> Task | Literal["done", "wait"]:
        """The item at hand, or the next one; `wait` where all that is left is with other judges."""
        given = self._known(judge)
        if given.current is None:
            position = len(given.answered)
            if position >= self.total:
                return "done"
            found = self._choose(given, position)
            if found is None:
                return "wait" if self._others_at_work(given) else "done"
            given.current, given.since = found, self.clock()
        self._leased[given.current][judge] = self.clock() + LEASE_SECONDS
        return self._task(given, given.current, len(given.answered))

    def earlier(self, judge: str, position: int) -> Task:
        """An item that the judge has answered, to look at again or to correct."""
        given = self._known(judge)
        items = list(given.answered)
        if not 0 <= position < len(items):
            raise ItemTaken(f"position {position}: {len(items)} items answered")
        return self._task(given, items[position], position)

    def answer(self, judge: str, item: str, choices: Mapping[str, Choice], ms: int) -> None:
        """Keep the answers to all questions of an item; answering again corrects."""
        given = self._known(judge)
        correction = item in given.answered
        if not correction and not self._may_answer(given, item):
            raise ItemTaken("this item was given to another judge meanwhile")
        position = list(given.answered).index(item) if correction else len(given.answered)
        if given.current == item:
            ms = min(ms, round(1000 * (self.clock() - given.since)))  # nobody reads before he is shown
        left = _left(given.judge)
        answers = [
            Answer(self.study.hash, judge, item, question, left, position, choice, ms, now(), self.simulated)
            for question, choice in choices.items()
        ]
        self._answers.append(answers, sync=not self.simulated)
        for answer in answers:
            self._note(answer)
        if given.current == item:
            given.current = None

    def _note(self, answer: Answer) -> None:
        self._given[answer.judge].answered.setdefault(answer.item, {})[answer.question] = answer.choice
        self._judged[answer.item].add(answer.judge)
        self._leased[answer.item].pop(answer.judge, None)

    def _known(self, judge: str) -> _Given:
        if judge not in self._given:
            raise UnknownJudge
        return self._given[judge]

    def _task(self, given: _Given, item: str, position: int) -> Task:
        answers = dict(given.answered.get(item, {}))
        return Task(self.study.items[item], _left(given.judge), position, answers)

    def _order(self, judge: Judge) -> tuple[list[str], list[str], list[bool]]:
        """A judge's own order of items and of checks, and at which positions checks are: one in every block."""
        if judge.judge not in self._orders:
            chance = random.Random(f"{self.study.study.seed} judge {judge.number}")
            pairs, checks = list(self.study.pairs), list(self.study.checks)
            chance.shuffle(pairs)
            chance.shuffle(checks)
            every = self.study.study.checks.every
            is_check = [False] * self.total
            for start in range(0, self.total, every) if every and checks else ():
                is_check[chance.randrange(start, min(start + every, self.total))] = True
            self._orders[judge.judge] = pairs, checks, is_check
        return self._orders[judge.judge]

    def _choose(self, given: _Given, position: int) -> str | None:
        pairs, checks, is_check = self._order(given.judge)
        if is_check[position]:
            check = next((each for each in checks if each not in given.answered), None)
            if check is not None:
                return check
        return next((each for each in pairs if each not in given.answered and not self._is_full(each, given)), None)

    def _is_full(self, item: str, given: _Given) -> bool:
        """Whether enough other judges have answered an item, or are at it."""
        if item not in self._judged and item not in self._leased:
            return False
        moment = self.clock()
        at_work = {judge for judge, until in self._leased[item].items() if until > moment}
        others = (self._judged[item] | at_work) - {given.judge.judge}
        return len(others) >= self.study.study.judges_per_item

    def _others_at_work(self, given: _Given) -> bool:
        wanted = self.study.study.judges_per_item
        return any(item not in given.answered and len(self._judged[item]) < wanted for item in self.study.pairs)

    def _may_answer(self, given: _Given, item: str) -> bool:
        """The item at hand, also when its lease is over, as long as not enough others have answered it."""
        if item not in self.study.items:
            return False
        if self.study.key[item].kind != "pair":
            return True
        return len(self._judged[item] - {given.judge.judge}) < self.study.study.judges_per_item


def _left(judge: Judge) -> Place:
    """What a judge sees on the left."""
    return "first" if judge.number % 2 == 0 else "second"
