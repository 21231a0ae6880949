"""OpenAI-compatible routes. A completion is a story FROM the prompt, not a continuation of it.

Beyond OpenAI's fields a request may have `plan`, `top_k`, `min_p`, `repetition_penalty`; answers carry
`discodvt: {plan, segments}` with each choice. What is not supported and would change the answer is refused by name.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field

from discodvt.errors import BadRequest, WorkFailed
from discodvt.studio.jobs import Event, Job, Jobs
from discodvt.studio.native import MOST_STORIES, Codes, Prompt, Strict, sampling_params
from discodvt.studio.scribe import Scribe
from discodvt.web.access import HttpError
from discodvt.web.shell import error_json
from discodvt.writing import Request

MOST_STOPS = 4
REFUSED: dict[str, tuple[Any, ...]] = {
    "logprobs": (None,), "suffix": (None,), "echo": (None, False), "best_of": (None, 1), "logit_bias": (None, {}),
    "presence_penalty": (None, 0), "frequency_penalty": (None, 0),
}  # fmt: skip


class StreamOptions(Strict):
    include_usage: bool = False


class Completion(Strict):
    model: str
    prompt: Prompt | Annotated[list[Prompt], Field(min_length=1, max_length=MOST_STORIES)]
    n: Annotated[int, Field(ge=1, le=MOST_STORIES)] | None = 1
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None
    plan: Codes | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    logprobs: Any = None
    suffix: Any = None
    echo: Any = None
    best_of: Any = None
    logit_bias: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None

    def checked(self, model: str) -> "Completion":
        if self.model != model:
            raise HttpError(404, f"model: not the one served here; ask for {model}", param="model")
        for name, neutral in REFUSED.items():
            if getattr(self, name) not in neutral:
                raise BadRequest(f"`{name}`: not supported; leave it out", name)
        if len(self.stops) > MOST_STOPS or not all(self.stops):
            raise BadRequest(f"`stop`: at most {MOST_STOPS} texts, none of them empty", "stop")
        if len(self.prompts) * (self.n or 1) > MOST_STORIES:
            raise BadRequest(f"`n`: at most {MOST_STORIES} stories in all", "n")
        return self

    @property
    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt


def routes(scribe: Scribe, jobs: Jobs) -> APIRouter:
    """The OpenAI-compatible routes of one writer."""
    router, writer, started = APIRouter(prefix="/v1"), scribe.writer, int(time.time())
    card = {"id": writer.name, "object": "model", "created": started, "owned_by": "discodvt"}

    @router.get("/models")
    def models() -> dict[str, Any]:
        return {"object": "list", "data": [card]}

    @router.get("/models/{name}")
    def model(name: str) -> dict[str, Any]:
        if name != writer.name:
            raise HttpError(404, "model: not the one served here", param="model")
        return card

    @router.post("/completions")
    async def completions(asked: Completion, http: HttpRequest) -> Response:
        """Write a story to each prompt."""
        asked.checked(writer.name)
        names = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        params = sampling_params({name: value for name in names if (value := getattr(asked, name)) is not None})
        each, plan = asked.n or 1, None if asked.plan is None else tuple(asked.plan)
        requests = [
            Request(prompt, index=number * each + which, seed=asked.seed or 0, plan=plan)
            for number, prompt in enumerate(asked.prompts)
            for which in range(each)
        ]
        job = jobs.new(len(requests))
        try:
            await scribe.write(job, requests, params, stops=asked.stops)
        except BaseException:
            jobs.forget(job)
            raise
        head = {
            "id": f"cmpl-{job.id}", "object": "text_completion", "created": int(time.time()), "model": writer.name,
            "system_fingerprint": scribe.model_hash,
        }  # fmt: skip
        chunks = _chunks(scribe, jobs, job, each)
        if asked.stream:
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return StreamingResponse(_sse(head, chunks, usage=usage), media_type="text/event-stream")
        whole = asyncio.create_task(_whole(chunks, len(requests)))
        left = asyncio.create_task(_left(http))
        try:
            await asyncio.wait((whole, left), return_when=asyncio.FIRST_COMPLETED)
            return JSONResponse({**head, **(whole.result() if whole.done() else {})})
        finally:
            left.cancel()
            whole.cancel()  # a client that left is not written for

    return router


async def _chunks(
    scribe: Scribe, jobs: Jobs, job: Job, each: int
) -> AsyncGenerator[tuple[int, str, dict[str, Any] | None, dict[str, int]]]:
    """Pieces of the choices; the last of each has its reason. A client that leaves frees the rows of its stories."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    try:
        async for found in job.follow():
            event = found[1] if found else Event("ping", {})
            if event.name == "error":
                raise WorkFailed(event.data["message"])
            if event.name == "text":
                yield event.data["i"], event.data["delta"], None, usage
            elif event.name == "done":
                number, record, used = event.data["i"], event.data["record"], event.data["usage"]
                usage["prompt_tokens"] += used["prompt_tokens"] if number % each == 0 else 0  # once for all its choices
                usage["completion_tokens"] += used["completion_tokens"]
                usage["total_tokens"] = usage["prompt_tokens"] + usage["completion_tokens"]
                reason = "length" if record["finish"] == "length" else "stop"
                extra = {"plan": record["plan"], "segments": record["segments"]}
                yield number, "", {"finish_reason": reason, "discodvt": extra}, usage
    finally:
        jobs.forget(job)
        if job.ended_at is None:
            await scribe.stop(job)


async def _whole(chunks: AsyncGenerator[Any], choices: int) -> dict[str, Any]:
    """All choices and what they cost, for an answer in one piece."""
    texts = [""] * choices
    finals: dict[int, dict[str, Any]] = {}
    total: dict[str, int] = {}
    async with aclosing(chunks):
        async for number, piece, final, used in chunks:
            texts[number] += piece
            total = used
            if final:
                finals[number] = final
    return {
        "choices": [{"index": n, "text": text, "logprobs": None, **finals[n]} for n, text in enumerate(texts)],
        "usage": total,
    }


async def _left(http: HttpRequest) -> None:
    """Wait until the client is gone."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


async def _sse(head: dict[str, Any], chunks: AsyncGenerator[Any], *, usage: bool) -> AsyncIterator[bytes]:
    def line(value: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()

    used: dict[str, int] = {}
    try:
        async for number, piece, final, counted in chunks:
            used = counted
            choice = {"index": number, "text": piece, "logprobs": None, "finish_reason": None, **(final or {})}
            yield line({**head, "choices": [choice]})
        if usage:
            yield line({**head, "choices": [], "usage": used})
        yield b"data: [DONE]\n\n"
    except WorkFailed as error:  # the answer has begun: its client is told in the stream
        yield line(error_json(error))
    finally:
        await chunks.aclose()
