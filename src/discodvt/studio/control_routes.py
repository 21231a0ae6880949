"""Routes of control over a story that the client holds: edits, what the posterior hears, two stories compared."""

from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import Response
from pydantic import Field

from discodvt.studio.edits import AnyEdit, StoryGiven, wish_of
from discodvt.studio.errands import Errand
from discodvt.studio.jobs import Jobs
from discodvt.studio.native import MOST_STORIES, Strict, read_back, sampling_params, started
from discodvt.studio.scribe import Scribe
from discodvt.writing.control import aligned, heard


class EditAsked(Strict):
    story: StoryGiven
    edit: AnyEdit
    n: Annotated[int, Field(ge=1, le=MOST_STORIES)] = 1
    seed: int | None = None  # None: the story's own where the edit is to change nothing else, else the next
    settings: dict[str, Any] = Field(default={})


class HeardAsked(Strict):
    story: StoryGiven


class CompareAsked(Strict):
    stories: Annotated[list[StoryGiven], Field(min_length=2, max_length=2)]


def routes(scribe: Scribe, jobs: Jobs) -> APIRouter:
    """Nothing here is kept; for versions see `project_routes.py`."""
    router, writer = APIRouter(prefix="/api"), scribe.writer

    @router.post("/edits", status_code=202)
    async def edits(asked: EditAsked, accept: Annotated[str, Header()] = "") -> Response:
        """Write a story anew by an edit of its plan; of several candidates the last event says which is best."""
        seed = asked.seed if asked.seed is not None else asked.story.seed + asked.edit.new_seed
        params, wish = sampling_params(asked.settings), wish_of(asked.edit)
        requests = await scribe.run(lambda: asked.edit.requests(writer, asked.story, n=asked.n, seed=seed))
        return started(await Errand(requests, params, writer.name, wish=wish).start(scribe, jobs), accept)

    @router.post("/heard")
    async def heard_codes(asked: HeardAsked) -> dict[str, Any]:
        """The story read back by the posterior, code by code against its plan; -1 where there is no text."""
        found = await read_back(scribe, lambda: heard(writer, asked.story.as_story()))
        return {"heard": [each._asdict() for each in found]}

    @router.post("/compare")
    def compare(asked: CompareAsked) -> dict[str, Any]:
        """Two stories aligned by the places of their plans."""
        first, second = asked.stories
        found = aligned(first.as_story(), second.as_story())
        return {"places": [{**each._asdict(), "same": each.same} for each in found]}

    return router
