"""The server for judges: one page, and the few requests it makes. Nothing it sends names a system.

A judge's id is in the fragment of his link (`/#ID`), which browsers do not send; the page sends it in the body of its
requests. What is served of an item is its prompt and two texts, in the judge's own order.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from discodvt.errors import BadRequest
from discodvt.judging.answers import Choice
from discodvt.judging.make_stage import open_study
from discodvt.judging.session import WAIT_SECONDS, ItemTaken, Session, Task, UnknownJudge
from discodvt.web.access import Access, HttpError, make_access
from discodvt.web.application import add_files, in_shell, make_app, need_web
from discodvt.web.server import kept_token, serve
from discodvt.web.shell import Shell

PORT = 8322
FILES = {"/": "pages/judge.html"} | {f"/{name}": f"pages/{name}" for name in ("judge.js", "judge.css", "favicon.svg")}
LOCK = ".serve.lock"
LONGEST_MS = 7 * 24 * 3600 * 1000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Consent(_Body):
    consent: Literal[True]


class Ask(_Body):
    judge: str = Field(max_length=64)


class Earlier(Ask):
    position: int = Field(ge=0)


class Answers(Ask):
    item: str = Field(max_length=64)
    answers: dict[str, Choice] = Field(max_length=10)
    ms: int = Field(ge=0, le=LONGEST_MS)


def serve_study(
    directory: Path,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    allow_hosts: tuple[str, ...] = (),
    announce: Callable[[str], None],
    open_browser: bool = True,
) -> None:
    """Serve a study until Ctrl-C; its token is kept in its directory, so that links stay good."""
    need_web()
    study = open_study(directory)
    access = make_access(host, port, allow_hosts=allow_hosts, token=kept_token(directory))
    lock = FileLock(directory / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise BadRequest(f"{directory}: served already by another process; stop that one first") from None
    try:
        session = Session(study)
        try:
            serve(lambda found: judge_app(session, found), access, announce=announce, open_browser=open_browser)
        finally:
            session.close()
    finally:
        lock.release()


def judge_app(session: Session, access: Access) -> Shell:
    """The application: its routes run one after another in one thread, so a session needs no locks."""
    app = make_app("judge")
    add_files(app, "discodvt.judging", FILES)
    study = session.study.study

    @app.get("/api/study")
    async def read_study() -> dict[str, Any]:
        return {
            "title": study.title,
            "consent": study.consent,
            "instructions": study.instructions,
            "questions": [question.model_dump() for question in study.questions],
            "total": session.total,
        }

    @app.post("/api/judges", status_code=201)
    async def join(body: Consent) -> dict[str, str]:
        return {"judge": session.join()}

    @app.post("/api/next")
    async def next_item(body: Ask) -> dict[str, Any]:
        try:
            task = session.next(body.judge)
        except UnknownJudge:
            raise _unknown() from None
        if task == "done":
            return {"state": "done", "code": study.completion.code, "url": study.completion.url}
        if task == "wait":
            return {"state": "wait", "seconds": WAIT_SECONDS}
        return _shown(task)

    @app.post("/api/earlier")
    async def earlier_item(body: Earlier) -> dict[str, Any]:
        try:
            return _shown(session.earlier(body.judge, body.position))
        except UnknownJudge:
            raise _unknown() from None
        except ItemTaken as error:
            raise HttpError(404, str(error), param="position") from None

    @app.post("/api/answers")
    async def answer(body: Answers) -> dict[str, bool]:
        expected = {question.id: question for question in study.questions}
        if body.answers.keys() != expected.keys():
            raise HttpError(422, f"answers: expected one for each of {', '.join(expected)}", param="answers")
        if any(choice == "tie" and not expected[name].tie for name, choice in body.answers.items()):
            raise HttpError(422, "answers: a question without a tie", param="answers")
        try:
            session.answer(body.judge, body.item, body.answers, body.ms)
        except UnknownJudge:
            raise _unknown() from None
        except ItemTaken as error:
            raise HttpError(409, str(error), param="item") from None
        return {"kept": True}

    return in_shell(app, access)


def _shown(task: Task) -> dict[str, Any]:
    left, right = task.texts
    item = {"id": task.item.id, "prompt": task.item.prompt, "left": left, "right": right}
    return {"state": "item", "item": item, "position": task.position, "answers": task.answers}


def _unknown() -> HttpError:
    return HttpError(404, "judge: no such judge in this study; begin again from its first page", param="judge")
