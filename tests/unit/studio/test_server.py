"""The server of a writer: stories equal to `generate`'s, events that resume, stopping, OpenAI's client, refusals."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from unit.studio.held_stories import HeldStories
from unit.web.asking import running
from unit.writing.toy_writer import CODES, save_writer

from discodvt.studio.jobs import Job
from discodvt.studio.scribe import Scribe
from discodvt.studio.server import make_studio
from discodvt.web.access import Access, make_access
from discodvt.writing import Request, SamplingParams, Story, StoryWriter
from discodvt.writing.control import alternatives
from discodvt.writing.story_batch import StoryBatch

PROMPT = "The fox who lost his hat"
SETTINGS = {"min_tokens": 20, "max_tokens": 40}


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> StoryWriter:
    return StoryWriter.from_pretrained(save_writer(tmp_path_factory.mktemp("writer")))


@pytest.fixture(scope="module")
def access(writer: StoryWriter) -> Iterator[Access]:
    made = make_access()
    with running(make_studio(writer, made, rows=4), made) as found:
        yield found


def ask(access: Access, method: str, path: str, value: Any = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    with closing(HTTPConnection("127.0.0.1", access.port, timeout=60)) as connection:
        body = None if value is None else json.dumps(value)
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, path, body, {"content-type": "application/json"} | sent)
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())


def events_of(body: bytes) -> list[tuple[int, str, dict[str, Any]]]:
    found = []
    for block in body.decode().strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        if "id" not in lines:  # a ping, on a machine with much else to do
            continue
        found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


def alone(writer: StoryWriter, seed: int, prompt: str = PROMPT, **given: Any) -> Story:
    (story,) = writer.write_many([Request(prompt, seed=seed, **given)], SamplingParams(**SETTINGS), batch_size=1)
    return story


def test_many_clients_at_once_each_get_the_story_of_their_seed(access, writer):
    """More clients than rows, each with settings of its own."""

    def one(seed: int) -> tuple[str, str, list[int]]:
        settings = SETTINGS | ({"temperature": 0.5} if seed % 2 else {})
        asked = {"prompt": PROMPT, "seed": seed, "settings": settings}
        status, body, _ = ask(access, "POST", "/api/stories", asked, accept="text/event-stream")
        assert status == 200
        events = events_of(body)
        assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
        text = "".join(data["delta"] for _, name, data in events if name == "text")
        (record,) = [data["record"] for _, name, data in events if name == "done"]
        (plan,) = [data["codes"] for _, name, data in events if name == "plan"]
        assert record["story"] == text
        return text, record["finish"], plan

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(one, range(12)))
    for seed, (text, finish, plan) in enumerate(found):
        params = SamplingParams(**SETTINGS, **({"temperature": 0.5} if seed % 2 else {}))
        (story,) = writer.write_many([Request(PROMPT, seed=seed)], params, batch_size=1)
        assert (text, finish, tuple(plan)) == (story.text, story.finish, story.plan)


def test_a_job_is_followed_again_from_any_event(access):
    status, body, headers = ask(access, "POST", "/api/stories", {"prompt": PROMPT, "n": 3, "settings": SETTINGS})
    assert status == 202
    whole = events_of(ask(access, "GET", headers["location"])[1])
    assert sum(name == "done" for _, name, _ in whole) == 3
    for after in (0, 1, len(whole) - 1):
        assert events_of(ask(access, "GET", headers["location"], last_event_id=str(after))[1]) == whole[after:]
    assert ask(access, "GET", headers["location"], last_event_id="99999")[0] == 400
    assert ask(access, "GET", "/api/jobs/other/events")[0] == 404
    assert json.loads(body)["job"] in headers["location"]


def test_a_stopped_job_frees_its_rows_and_keeps_its_events(writer, monkeypatch):
    held, made = HeldStories(monkeypatch), make_access()
    with running(make_studio(writer, made, rows=1), made) as access:
        asked = {"prompt": PROMPT, "settings": {"min_tokens": 60, "max_tokens": 70}}
        job = json.loads(ask(access, "POST", "/api/stories", asked)[1])["job"]
        assert held.come.wait(60)
        assert ask(access, "DELETE", f"/api/jobs/{job}")[0] == 200
        names = [name for _, name, _ in events_of(ask(access, "GET", f"/api/jobs/{job}/events")[1])]
        assert names[-1] == "stopped"
        assert "done" not in names
        short = {"prompt": PROMPT, "settings": {"min_tokens": 1, "max_tokens": 3}}
        begun = held.steps
        assert ask(access, "POST", "/api/stories", short, accept="text/event-stream")[0] == 200
        assert held.steps - begun < 30  # the steps that were left are more


def test_plans_alternatives_and_codes(access, writer):
    plans = json.loads(ask(access, "POST", "/api/plans", {"prompt": PROMPT, "n": 2, "locks": {"1": 5}})[1])["plans"]
    assert [plan["codes"][1] for plan in plans] == [5, 5]
    assert all(plan["log_probability"] < 0 for plan in plans)
    asked = {"prompt": PROMPT, "plan": plans[0]["codes"], "place": 2, "top": 3}
    found = json.loads(ask(access, "POST", "/api/plans/alternatives", asked)[1])["alternatives"]
    expected = alternatives(writer, PROMPT, plans[0]["codes"], 2, top=3)
    assert [(each["code"], each["probability"]) for each in found] == [tuple(each) for each in expected]
    assert json.loads(ask(access, "GET", "/api/model")[1])["codes"] == CODES
    text = "Once there was a fox."
    read = json.loads(ask(access, "POST", "/api/plans/read", {"story": text})[1])["codes"]
    assert tuple(read) == writer.plan_of(text)


def test_a_story_begins_as_asked_along_the_plan_given(access, writer):
    asked = {"prompt": PROMPT, "plan": [1, 2, 3], "begin_with": "Once there was", "settings": SETTINGS}
    events = events_of(ask(access, "POST", "/api/stories", asked, accept="text/event-stream")[1])
    record = events[-1][2]["record"]
    assert record["story"] == alone(writer, 0, plan=(1, 2, 3), begin_with="Once there was").text
    assert record["story"].startswith("Once there was")


@pytest.mark.parametrize(
    ("path", "value", "status", "param"),
    [
        ("/api/stories", {"prompt": ""}, 422, "prompt"),
        ("/api/stories", {"prompt": "x" * 4001}, 422, "prompt"),
        ("/api/stories", {"prompt": PROMPT, "n": 9}, 422, "n"),
        ("/api/stories", {"prompt": PROMPT, "n": True}, 422, "n"),
        ("/api/stories", {"prompt": PROMPT, "wrong": 1}, 422, "wrong"),
        ("/api/stories", {"prompt": PROMPT, "locks": {"99": 1}}, 400, "locks"),
        ("/api/stories", {"prompt": PROMPT, "locks": {"a": 1}}, 400, "locks"),
        ("/api/stories", {"prompt": PROMPT, "plan": [CODES]}, 400, "plan"),
        ("/api/stories", {"prompt": PROMPT, "plan": [1] * 1000}, 400, "plan"),
        ("/api/stories", {"prompt": PROMPT, "settings": {"top_p": 2}}, 400, "top_p"),
        ("/api/stories", {"prompt": PROMPT, "settings": {"top_p": "a"}}, 400, "settings"),
        ("/api/stories", {"prompt": PROMPT, "settings": {"other": 1}}, 400, "settings"),
        ("/api/plans/alternatives", {"prompt": PROMPT, "plan": [1], "place": 9}, 400, "place"),
        ("/v1/completions", {"model": "other", "prompt": PROMPT}, 404, "model"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "logprobs": 2}, 400, "logprobs"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "echo": True}, 400, "echo"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "best_of": 3}, 400, "best_of"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "suffix": "end"}, 400, "suffix"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "tools": []}, 422, "tools"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "stop": [""]}, 400, "stop"),
        ("/v1/completions", {"model": "MODEL", "prompt": PROMPT, "stop": 7}, 422, "stop"),
        ("/v1/completions", {"model": "MODEL", "prompt": ""}, 422, "prompt"),
        ("/v1/completions", {"model": "MODEL", "prompt": []}, 422, "prompt"),
        ("/v1/completions", {"model": "MODEL"}, 422, "prompt"),
        ("/api/edits", {"story": {"prompt": PROMPT, "story": "a", "plan": ["b"]}, "edit": {}}, 422, "story.plan.0"),
        (
            "/api/edits",
            {"story": {"prompt": PROMPT, "story": "a", "plan": [1]}, "edit": {"kind": "swap", "place": 1}},
            422,
            "edit.code",
        ),
    ],
)
def test_wrong_requests_are_typed_errors(access, writer, path, value, status, param):
    value = {name: writer.name if text == "MODEL" else text for name, text in value.items()}
    found, body, _ = ask(access, "POST", path, value)
    error = json.loads(body)["error"]
    assert (found, error["param"]) == (status, param)
    assert "\n" not in error["message"]


def test_openais_own_client_streams_a_story(access, writer):
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{access.port}/v1", api_key="none", max_retries=0)
    with client:
        assert [model.id for model in client.models.list().data] == [writer.name]
        story = alone(writer, 5)
        asked = {"model": writer.name, "prompt": PROMPT, "seed": 5, "max_tokens": 40, "temperature": 1.0}
        whole = client.completions.create(**asked)
        pieces, usage = [], None
        for chunk in client.completions.create(**asked, stream=True, stream_options={"include_usage": True}):
            pieces += [choice.text for choice in chunk.choices]
            usage = chunk.usage or usage
        assert "".join(pieces) == whole.choices[0].text
        assert usage == whole.usage
        assert usage.completion_tokens > 0
        (same,) = writer.write_many([Request(PROMPT, seed=5)], SamplingParams(max_tokens=40, temperature=1.0))
        assert whole.choices[0].text == same.text
        assert whole.choices[0].model_extra["discodvt"]["plan"] == list(story.plan)
        stop = same.text[5:8]
        cut = client.completions.create(**asked, stop=stop)
        assert cut.choices[0].text == same.text[: same.text.index(stop)]
        two = client.completions.create(**asked, n=2)
        assert [choice.index for choice in two.choices] == [0, 1]
        assert two.choices[0].text == same.text
        assert two.usage.prompt_tokens == whole.usage.prompt_tokens  # once, as OpenAI counts
        pair = client.completions.create(**asked | {"prompt": [PROMPT, PROMPT]})
        assert pair.usage.prompt_tokens == 2 * whole.usage.prompt_tokens
        with pytest.raises(openai.BadRequestError, match="logprobs"):
            client.completions.create(**asked, logprobs=1)


def test_openais_client_sends_the_token_as_its_key(writer):
    openai = pytest.importorskip("openai")
    made = make_access(token="secret")
    with running(make_studio(writer, made), made) as access:
        base = f"http://127.0.0.1:{access.port}/v1"
        with openai.OpenAI(base_url=base, api_key="secret", max_retries=0) as client:
            assert [model.id for model in client.models.list().data] == [writer.name]
        wrong = openai.OpenAI(base_url=base, api_key="guessed", max_retries=0)
        with wrong, pytest.raises(openai.AuthenticationError):
            wrong.models.list()


def test_a_server_that_ends_leaves_no_thread(writer):
    made = make_access()
    before = threading.active_count()
    with running(make_studio(writer, made), made) as access:
        assert ask(access, "GET", "/api/model")[0] == 200
    assert threading.active_count() <= before + 1


def test_a_stop_ends_the_writing_and_counts_what_was_written(access, writer):
    """The row is free at the stop, the other choice goes on, and usage has no more than the subwords up to it."""
    asked = {"model": writer.name, "prompt": PROMPT, "seed": 5, "max_tokens": 60, "temperature": 1.0}
    params = SamplingParams(max_tokens=60, temperature=1.0)
    stories = sorted(
        writer.write_many([Request(PROMPT, seed=5, index=n) for n in (0, 1)], params), key=lambda story: story.index
    )
    text = stories[0].text
    stop = next(text[at : at + 4] for at in range(8, len(text)) if text[at : at + 4] not in stories[1].text)
    steps: list[int] = []
    step = StoryBatch.step

    def counted(self: Any) -> Any:
        found = step(self)
        steps.append(len(self))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoryBatch, "step", counted)
        status, body, _ = ask(access, "POST", "/v1/completions", asked | {"stop": ["never there", stop]})
        alone_steps, answer = len(steps), json.loads(body)
        whole = json.loads(ask(access, "POST", "/v1/completions", asked)[1])
        both = json.loads(ask(access, "POST", "/v1/completions", asked | {"stop": stop, "n": 2})[1])
    (choice,) = answer["choices"]
    kept = text[: text.index(stop)]
    assert (status, choice["text"], choice["finish_reason"]) == (200, kept, "stop")
    assert choice["discodvt"]["segments"][-1][2] == len(kept)
    used, all_of_it = answer["usage"]["completion_tokens"], whole["usage"]["completion_tokens"]
    symbols = writer.tokenizer(f" {kept}", add_special_tokens=False).input_ids
    assert len(symbols) <= used <= len(symbols) + len(stop) + 1 < all_of_it
    assert alone_steps < len(steps) - alone_steps  # it was not written on
    assert [each["text"] for each in both["choices"]] == [kept, stories[1].text]
    assert answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + used


def test_of_many_stories_each_is_told_less_often_and_wholly(writer, monkeypatch):
    """The more are written the fewer events of each; a reader misses nothing."""

    async def told() -> list[dict[str, Any]]:
        scribe, job = Scribe(writer, rows=4), Job(1)
        scribe.start()
        try:
            await scribe.write(job, [Request(PROMPT, seed=1)], SamplingParams(**SETTINGS))
            return [found[1].data async for found in job.follow() if found and found[1].name in ("text", "done")]
        finally:
            scribe.close()

    for limit in ("DELTAS", "SENDS"):
        monkeypatch.setattr(f"discodvt.studio.scribe.{limit}", 1e9)
    *often, _ = asyncio.run(told())
    monkeypatch.setattr("discodvt.studio.scribe.SENDS", 1e-3)  # so that one story is too many
    *seldom, done = asyncio.run(told())
    assert len(often) > 10
    assert len(seldom) == 2  # the first and the rest
    for texts in (often, seldom):
        assert "".join(each["delta"] for each in texts) == done["record"]["story"] == alone(writer, 1).text


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_rows(writer, monkeypatch, stream):
    held, made, freed, cancel = HeldStories(monkeypatch), make_access(), threading.Event(), StoryBatch.cancel
    monkeypatch.setattr(StoryBatch, "cancel", lambda batch, draft: (cancel(batch, draft), freed.set()))
    with running(make_studio(writer, made, rows=1), made) as access:
        asked = {"model": writer.name, "prompt": PROMPT, "max_tokens": 70, "stream": stream}
        with closing(HTTPConnection("127.0.0.1", access.port, timeout=60)) as connection:
            connection.request("POST", "/v1/completions", json.dumps(asked), {"content-type": "application/json"})
            assert held.come.wait(60)
        assert freed.wait(10)


def test_a_stream_that_fails_says_so_to_openais_client(writer, monkeypatch):
    openai = pytest.importorskip("openai")
    made, step = make_access(), StoryBatch.step

    def failing(batch: StoryBatch) -> Any:
        grown = step(batch)
        if any(len(draft.symbols) > 20 for draft in grown):
            raise RuntimeError("no such luck")
        return grown

    monkeypatch.setattr(StoryBatch, "step", failing)
    with running(make_studio(writer, made), made) as access:
        base = f"http://127.0.0.1:{access.port}/v1"
        with openai.OpenAI(base_url=base, api_key="none", max_retries=0) as client:
            asked = {"model": writer.name, "prompt": PROMPT, "max_tokens": 60}
            with pytest.raises(openai.APIError, match=r"writing failed \(RuntimeError\)"):
                list(client.completions.create(**asked, stream=True))
            with pytest.raises(openai.InternalServerError, match=r"writing failed \(RuntimeError\)"):
                client.completions.create(**asked)
