"""Routes under `/api`. Places of a plan are counted from 0; what is not known is refused with its name."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from statistics import fmean
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Header
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from discodvt.errors import BadRequest
from discodvt.studio.jobs import Job, Jobs
from discodvt.studio.scribe import Scribe
from discodvt.web.access import HttpError
from discodvt.web.lane import Lane
from discodvt.writing import Request, SamplingParams
from discodvt.writing.control import alternatives
from discodvt.writing.dictionary import CodeDictionary
from discodvt.writing.prompts import is_number

MOST_PROMPT, MOST_STORY, MOST_STORIES = 4_000, 100_000, 8
Prompt = Annotated[str, Field(min_length=1, max_length=MOST_PROMPT)]
T = TypeVar("T")
Codes = Annotated[list[int], Field(max_length=4096)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Asked(Strict):
    prompt: Prompt
    n: Annotated[int, Field(ge=1, le=MOST_STORIES)] = 1
    seed: int = 0
    index: Annotated[int, Field(ge=0)] = 0
    locks: dict[str, int] = {}
    settings: dict[str, Any] = {}

    def params(self) -> SamplingParams:
        return sampling_params(self.settings)

    def requests(self, **more: Any) -> list[Request]:
        wrong = [place for place in self.locks if not is_number(place)]
        if wrong:
            raise BadRequest(f"`locks`: {wrong[0][:20]!r} is no place; give whole numbers from 0", "locks")
        locks = tuple((int(place), code) for place, code in self.locks.items())
        return [
            Request(self.prompt, index=self.index + number, seed=self.seed, locks=locks, id=str(number + 1), **more)
            for number in range(self.n)
        ]


class StoriesAsked(Asked):
    plan: Codes | None = None
    begin_with: Annotated[str, Field(max_length=MOST_STORY)] = ""


class StoryRead(Strict):
    story: Annotated[str, Field(min_length=1, max_length=MOST_STORY)]


class AlternativesAsked(Strict):
    prompt: Prompt
    plan: Codes
    place: int
    top: Annotated[int, Field(ge=1, le=256)] = 12


def sampling_params(settings: Mapping[str, Any]) -> SamplingParams:
    """Settings of a request as params; types are checked before values."""
    known = SamplingParams.__dataclass_fields__
    for name, value in settings.items():
        if name not in known:
            raise BadRequest(f"`settings`: no setting {name!r}; there are {', '.join(known)}", "settings")
        whole = name.endswith(("_tokens", "_codes", "_k"))
        kinds: tuple[type, ...] = (bool,) if name == "greedy" else (int,) if whole else (int, float)
        if not isinstance(value, kinds) or (isinstance(value, bool) and name != "greedy"):
            raise BadRequest(f"`settings`: {name} is not a {'yes or no' if name == 'greedy' else 'number'}", "settings")
    return SamplingParams(**settings)


def routes(scribe: Scribe, jobs: Jobs, lane: Lane) -> APIRouter:
    """The native routes of one writer; those who follow a job that another began are told in the lane."""
    router, writer = APIRouter(prefix="/api"), scribe.writer
    dictionary = CodeDictionary.of(writer.directory)

    def described(code: int) -> dict[str, Any]:
        return {"code": code, "phrases": dictionary.phrases(code), "markers": dictionary.markers(code)}

    @router.get("/model")
    def model() -> dict[str, Any]:
        latent = writer.latent
        return {
            "name": writer.name,
            "hash": scribe.model_hash,
            "engine": writer.engine,
            "codes": latent.num_codes if latent else 0,
            "tokens_per_code": latent.tokens_per_code if latent else 0,
            "prior": writer.prior_engine is not None,
        }

    @router.get("/codes")
    def codes() -> dict[str, Any]:
        return {"codes": [described(code) for code in sorted(dictionary.entries)]}

    @router.get("/codes/{code}")
    def one_code(code: int) -> dict[str, Any]:
        if writer.latent is None or not 0 <= code < writer.latent.num_codes:
            raise HttpError(404, "no such code")
        return described(code)

    @router.post("/plans")
    async def plans(asked: Asked) -> dict[str, Any]:
        """Draw plans without writing along them."""

        def draw() -> list[dict[str, Any]]:
            batch, params = writer.batch(asked.n), asked.params()
            drafts = [batch.add(request, params) for request in asked.requests(scored=True)]
            batch.draw_plans()
            return [
                {"codes": list(draft.plan or ()), "log_probability": fmean(draft.plan_log_probs or [0.0])}
                for draft in drafts
            ]

        return {"plans": await scribe.run(draw)}

    @router.post("/plans/read")
    async def read(asked: StoryRead) -> dict[str, Any]:
        """The plan of a text, by the posterior, and the characters each code governs; `story` is what was read."""
        found = await read_back(scribe, lambda: writer.read(asked.story, ""))
        return {"codes": list(found.plan), "segments": [list(each) for each in found.segments], "story": found.text}

    @router.post("/plans/alternatives")
    async def other_codes(asked: AlternativesAsked) -> dict[str, Any]:
        """The likeliest codes at a place, with the prior's probability and the dictionary's words."""
        found = await scribe.run(lambda: alternatives(writer, asked.prompt, asked.plan, asked.place, top=asked.top))
        return {"alternatives": [{**described(each.code), "probability": each.probability} for each in found]}

    @router.post("/stories", status_code=202)
    async def stories(asked: StoriesAsked, accept: Annotated[str, Header()] = "") -> Response:
        """Write stories: a job to follow, or its events at once where the client accepts `text/event-stream`."""
        plan = None if asked.plan is None else tuple(asked.plan)
        requests, job = asked.requests(plan=plan, begin_with=asked.begin_with), jobs.new(asked.n)
        try:
            await scribe.write(job, requests, asked.params())
        except BaseException:
            jobs.forget(job)
            raise
        return started(job, accept)

    @router.get("/jobs/{id}/events")
    async def events(id: str, last_event_id: Annotated[str, Header()] = "0") -> Response:
        """The events of a job, from the one behind `Last-Event-ID` on."""
        job = jobs.get(id)
        if not (is_number(last_event_id) and int(last_event_id) <= len(job.events)):
            raise BadRequest("`last-event-id`: no number of an event of this job", "last-event-id")
        return _stream(job, job.as_sse(int(last_event_id), lane=lane))

    @router.delete("/jobs/{id}")
    async def stop(id: str, request: HttpRequest) -> dict[str, Any]:
        """Stop writing; what is written stays in the events."""
        job = jobs.get(id)
        await scribe.stop(job.source or job)
        return {"job": job.id, "stopped": True}

    return router


async def read_back(scribe: Scribe, work: Callable[[], T]) -> T:
    """Do some work with the posterior; where it is not open yet it is opened beside the batch, which goes on."""
    if scribe.writer.latent is not None:
        await asyncio.to_thread(getattr, scribe.writer, "model")
    return await scribe.run(work)


def started(job: Job, accept: str) -> Response:
    """Where to follow a job; its events at once where the client accepts them."""
    if "text/event-stream" in accept:
        return _stream(job, job.as_sse())
    return JSONResponse({"job": job.id}, 202, headers={"location": f"/api/jobs/{job.id}/events"})


def _stream(job: Job, events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-job": job.id})
