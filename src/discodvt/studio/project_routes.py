"""Routes of projects: trees of versions that are written, edited, locked, read in, moved through and exported."""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from fastapi.responses import Response
from pydantic import Field

from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest
from discodvt.report.pages import read_meanings, story_page
from discodvt.studio.edits import AnyEdit, StoryGiven, wish_of
from discodvt.studio.errands import Errand, Keeping
from discodvt.studio.jobs import Jobs
from discodvt.studio.native import (
    MOST_PROMPT,
    MOST_STORIES,
    MOST_STORY,
    StoriesAsked,
    Strict,
    read_back,
    sampling_params,
    started,
)
from discodvt.studio.projects import Project, Projects, Version
from discodvt.studio.scribe import Scribe
from discodvt.web.access import HttpError
from discodvt.writing.control import check_place, heard

Title = Annotated[str, Field(max_length=200)]


class Titled(Strict):
    title: Title = ""


class HeadMoved(Strict):
    version: str | None


class StoriesKept(StoriesAsked):
    """Without a seed each writing of a project has one of its own: 0, 1, ..."""

    parent: str | None = None
    seed: int | None = None  # type: ignore[assignment]


class EditKept(Strict):
    parent: str
    edit: AnyEdit
    n: Annotated[int, Field(ge=1, le=MOST_STORIES)] = 1
    seed: int | None = None
    settings: dict[str, Any] | None = None  # None: those the story was written with


class LocksKept(Strict):
    parent: str
    locks: Annotated[list[int], Field(max_length=4096)]


class TextRead(Strict):
    text: Annotated[str, Field(min_length=1, max_length=MOST_STORY)]
    prompt: Annotated[str, Field(max_length=MOST_PROMPT)] = ""
    parent: str | None = None


def routes(scribe: Scribe, jobs: Jobs, projects: Projects) -> APIRouter:
    """All that is kept. What has to do with the model goes through the scribe."""
    router, writer = APIRouter(prefix="/api/projects"), scribe.writer

    @router.get("")
    def listing() -> dict[str, Any]:
        return {"projects": projects.listing()}

    @router.post("", status_code=201)
    def new(asked: Titled) -> dict[str, Any]:
        return projects.new(asked.title).as_json()

    @router.get("/{id}")
    def one(id: str) -> dict[str, Any]:
        """A project as it stands, and the jobs that write for it now."""
        return projects.get(id).as_json() | {"jobs": jobs.of(id)}

    @router.put("/{id}")
    def rename(id: str, asked: Titled) -> dict[str, Any]:
        return projects.rename(id, asked.title).as_json()

    @router.delete("/{id}")
    def hide(id: str) -> dict[str, Any]:
        """Take a project out of the list; nothing of it is deleted."""
        projects.hide(id)
        return {"hidden": True}

    @router.put("/{id}/head")
    def move(id: str, asked: HeadMoved, if_match: Annotated[str | None, Header()] = None) -> dict[str, Any]:
        """Undo, redo, or any other version; `If-Match` has the revision that the client knows."""
        revision = None
        if if_match is not None:
            if not re.fullmatch(r'"?\d{1,15}"?', if_match):
                raise BadRequest("`if-match`: expected the revision of the project", "if-match")
            revision = int(if_match.strip('"'))
        return projects.move(id, asked.version, revision=revision).as_json()

    @router.get("/{id}/versions/{version}")
    def version(id: str, version: str) -> dict[str, Any]:
        return projects.get(id).version(version).as_json()

    @router.get("/{id}/versions/{version}/heard")
    async def heard_codes(id: str, version: str) -> dict[str, Any]:
        """A version read back by the posterior, code by code against its plan."""
        story = _given(projects.get(id).version(version)).as_story()
        return {"heard": [each._asdict() for each in await read_back(scribe, lambda: heard(writer, story))]}

    @router.post("/{id}/stories", status_code=202)
    async def stories(id: str, asked: StoriesKept, accept: Annotated[str, Header()] = "") -> Response:
        """Write stories to a prompt; each becomes a version."""
        project = projects.get(id)
        if asked.parent is not None:
            project.version(asked.parent)
        seed = _next_seed(project) if asked.seed is None else asked.seed
        plan = None if asked.plan is None else tuple(asked.plan)
        asked = asked.model_copy(update={"seed": seed})
        requests = asked.requests(plan=plan, begin_with=asked.begin_with, scored=asked.n > 1)
        locks = [int(place) for place in asked.locks]
        keeping = Keeping(
            projects, id, asked.parent, {"kind": "write"}, scribe.model_hash, locks=locks, settings=asked.settings
        )
        errand = Errand(requests, asked.params(), writer.name, keeping=keeping)
        return started(await errand.start(scribe, jobs), accept)

    @router.post("/{id}/edits", status_code=202)
    async def edits(id: str, asked: EditKept, accept: Annotated[str, Header()] = "") -> Response:
        """Write a version anew by an edit of its plan; what comes of it are versions made from that one."""
        project = projects.get(id)
        given, edit = _given(project.version(asked.parent)), asked.edit
        settings = given.settings if asked.settings is None else asked.settings
        params = sampling_params(settings)
        seed = asked.seed if asked.seed is not None else _next_seed(project) if edit.new_seed else given.seed
        requests = await scribe.run(lambda: edit.requests(writer, given, n=asked.n, seed=seed))
        keeping = Keeping(
            projects, id, asked.parent, edit.model_dump(), scribe.model_hash, locks=given.locks, settings=settings
        )
        errand = Errand(requests, params, writer.name, wish=wish_of(edit), keeping=keeping)
        return started(await errand.start(scribe, jobs), accept)

    @router.post("/{id}/locks", status_code=201)
    def lock(id: str, asked: LocksKept) -> dict[str, Any]:
        """The same story with other codes locked, as a version."""
        given = projects.get(id).version(asked.parent).record
        for place in asked.locks:
            check_place(place, len(given["plan"]), "locks")
        locks = sorted(set(asked.locks))
        action = {"kind": "lock", "places": sorted(set(locks) ^ set(given.get("locks", ())))}
        return _added(projects, id, asked.parent, action, given | {"locks": locks, "group": None})

    @router.post("/{id}/texts", status_code=201)
    async def read(id: str, asked: TextRead) -> dict[str, Any]:
        """A text by anybody, with the plan that is read in it; its prompt is its first sentence if none is given."""
        projects.get(id)
        start, end = split_sentences(asked.text.strip())[0] if asked.text.strip() else (0, 0)
        prompt = asked.prompt.strip() or asked.text.strip()[start:end].strip()[:MOST_PROMPT]
        story = await read_back(scribe, lambda: writer.read(asked.text, prompt))
        record = {
            "id": story.id, "prompt": prompt, "story": story.text, "plan": list(story.plan), "seed": 0, "model": "",
            "finish": "read", "segments": [list(each) for each in story.segments], "index": 0, "kept": 0, "locks": [],
            "settings": {}, "model_hash": scribe.model_hash, "cut": len(story.text) < len(asked.text.strip()),
        }  # fmt: skip
        return _added(projects, id, asked.parent, {"kind": "read"}, record)

    @router.get("/{id}/export/{kind}")
    def export(id: str, kind: Literal["text", "jsonl", "html"], version: str | None = None) -> Response:
        """The head (or another version) as text or as a page; all versions as JSON lines."""
        project = projects.get(id)
        at = version or project.head
        if at is None:
            raise HttpError(404, "nothing is written yet in this project", param="version")
        media, suffix, content = _EXPORTS[kind]
        given = _given(project.version(at))
        body = content(project, given, read_meanings(writer.directory))
        headers = {"content-disposition": f'attachment; filename="story.{suffix}"'}
        return Response(body.encode(), media_type=f"{media}; charset=utf-8", headers=headers)

    return router


def _added(projects: Projects, id: str, parent: str | None, action: dict[str, Any], record: Any) -> dict[str, Any]:
    version = projects.add(id, parent, action, record)
    return projects.follow(id, parent, version).as_json()


def _given(version: Version) -> StoryGiven:
    return StoryGiven(**version.record)


def _next_seed(project: Project) -> int:
    return len(project.versions)


def _jsonl(project: Project) -> str:
    """Every version as a line of `stories.jsonl`, with `version`, `parent` and `action`."""
    lines = []
    for version in project.versions.values():
        told = {"version": version.id, "parent": version.parent, "action": version.action}
        lines.append(json.dumps({**version.record, **told}, ensure_ascii=False) + "\n")
    return "".join(lines)


_Content = Callable[[Project, StoryGiven, dict[int, str]], str]
_EXPORTS: dict[str, tuple[str, str, _Content]] = {
    "text": ("text/plain", "txt", lambda project, given, meanings: f"{given.prompt}\n\n{given.story}\n"),
    "jsonl": ("application/jsonl", "jsonl", lambda project, given, meanings: _jsonl(project)),
    "html": ("text/html", "html", lambda project, given, meanings: story_page([given.as_story()], meanings=meanings)),
}
