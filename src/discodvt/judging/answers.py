"""The files of a study that grow: `judges.jsonl` and `answers.jsonl`, a line a judgement, on the disk before it counts.

A correction is a new line; the last one of a judge, item and question holds. Nothing is ever rewritten. Simulated
judges have files of their own (`simulated-...`) and every line of them says so.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from discodvt.errors import BadRequest, WorkFailed
from discodvt.judging.make_stage import Place, StudyDirectory

Choice = Literal["left", "right", "tie"]
CHOICES: tuple[str, ...] = get_args(Choice)
ANSWERS, JUDGES = "answers.jsonl", "judges.jsonl"
SIMULATED = "simulated-"


@dataclass(frozen=True, slots=True)
class Answer:
    """One judgement: what `judge` chose on one question of one item, and what was on the left."""

    study: str
    judge: str
    item: str
    question: str
    left: Place
    position: int  # in the judge's own order, from 0
    choice: Choice
    ms: int  # from showing the item to sending the answers
    time: str
    simulated: bool = False

    @property
    def chosen(self) -> Literal["first", "second", "tie"]:
        """The choice without its side."""
        if self.choice == "tie":
            return "tie"
        other: Place = "second" if self.left == "first" else "first"
        return self.left if self.choice == "left" else other


@dataclass(frozen=True, slots=True)
class Judge:
    """Who agreed to judge: a random id, and a number in order of coming."""

    study: str
    judge: str
    number: int
    time: str
    simulated: bool = False


class GrowingFile:
    """JSONL that only grows; a line is on the disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        cut_torn_line(path)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab", buffering=0)

    def append(self, records: Iterable[Answer | Judge], *, sync: bool = True) -> None:
        """Add lines, all of them or, when the disk is full, none."""
        left = "".join(json.dumps(asdict(record), ensure_ascii=False) + "\n" for record in records).encode()
        before = os.fstat(self._file.fileno()).st_size
        try:
            while left:  # a disk that fills up takes a part, and says so only of the rest
                left = left[self._file.write(left) :]
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(before)
            raise WorkFailed(f"{self.path}: not written ({error.strerror})") from None

    def close(self) -> None:
        self._file.close()


def cut_torn_line(path: Path) -> None:
    """Drop what a killed process left of its last line: it was never confirmed to anyone."""
    if path.exists() and (content := path.read_bytes()) and not content.endswith(b"\n"):
        with path.open("rb+") as file:
            file.truncate(content.rfind(b"\n") + 1)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_judges(path: Path, study: StudyDirectory) -> list[Judge]:
    return [Judge(**_fields(Judge, record, where)) for where, record in _records(path, study)]


def read_answers(path: Path, study: StudyDirectory, *, simulated: bool) -> list[Answer]:
    """All lines of a file, corrections too; lines of another study, or of the other kind of judges, are refused."""
    questions = {question.id for question in study.study.questions}
    found = []
    for where, record in _records(path, study):
        answer = Answer(**_fields(Answer, record, where))
        if answer.item not in study.items or answer.question not in questions or answer.choice not in CHOICES:
            raise BadRequest(f"{where}: no answer of this study; remove the line")
        if answer.simulated is not simulated:
            kind = "a simulated answer among people's" if answer.simulated else "a person's answer among simulated ones"
            raise BadRequest(f"{where}: {kind}; they are never scored together")
        found.append(answer)
    return found


def last_answers(answers: Iterable[Answer]) -> list[Answer]:
    """What holds after corrections, in the order of first answering."""
    held: dict[tuple[str, str, str], Answer] = {}
    for answer in answers:
        held[answer.judge, answer.item, answer.question] = answer
    return list(held.values())


def _records(path: Path, study: StudyDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
    """Lines of a growing file of this study; a last line without its end was never confirmed, and is left out."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a file of answers") from None
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
        except ValueError:
            raise BadRequest(f"{where}: not JSON; repair or remove the line") from None
        if not isinstance(record, dict) or record.get("study") != study.hash:
            raise BadRequest(f"{where}: an answer of another study; give the answers of {study.path}")
        yield where, record


def _fields(kind: type[Answer] | type[Judge], record: dict[str, Any], where: str) -> dict[str, Any]:
    expected = kind.__dataclass_fields__
    wanted = {"int": int, "bool": bool}
    for name, field in expected.items():
        if type(record.get(name)) is not wanted.get(getattr(field.type, "__name__", ""), str):
            raise BadRequest(f"{where}: {name} is missing or of another kind; repair or remove the line")
    return {name: record[name] for name in expected}
