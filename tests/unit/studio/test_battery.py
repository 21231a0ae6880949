"""What strangers send to a studio: every route of its table refuses it with the right status, and no work begins.

Routes are read off the application, so that one that is added is tried too. Incidents behind each: the notes of `web/`.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from unit.web.asking import JSON, Answer, ask, raw, raw_at_once, running
from unit.writing.toy_writer import save_writer

from discodvt.studio.database import NAME
from discodvt.studio.projects import Projects
from discodvt.studio.scribe import Scribe
from discodvt.studio.server import make_studio
from discodvt.web.access import HEALTH, Access, make_access
from discodvt.web.shell import MOST_BODY_BYTES, Shell
from discodvt.writing import StoryWriter

Doors = list[tuple[str, str]]
BODY = b'{"prompt": "A fox"}'
BODIES = {
    "deep": b"[" * 10_000 + b"]" * 10_000,
    "deep object": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "NaN": b'{"prompt": NaN}',
    "infinity": b'{"prompt": "a", "seed": -Infinity}',
    "too large a number": b'{"prompt": "a", "seed": 1e999}',
    "endless digits": b'{"seed": ' + b"9" * 5_000 + b"}",
    "a key twice": b'{"prompt": "a", "prompt": "b"}',
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "half a pair": b'{"prompt": "\\ud800"}',
    "no JSON": b"prompt=a",
    "half of it": BODY[:-3],
}
PATHS = [
    "/../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..\\..\\etc\\passwd", "//etc/passwd",
    "/%5c..%5cetc", "/\x00", "/api/codes/../../etc/passwd", "/api/codes/%00", "/api/jobs/../x/events", "/api/model/",
    "/.git/config", "/config.json", "/model.safetensors", "/docs", "/redoc",
]  # fmt: skip


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> StoryWriter:
    return StoryWriter.from_pretrained(save_writer(tmp_path_factory.mktemp("writer")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def studio(writer: StoryWriter, access: Access, data: Path) -> Shell:
    """The server with everything it can have."""
    return make_studio(writer, access, projects=Projects(data))


@pytest.fixture(scope="module")
def shell(writer: StoryWriter, data: Path) -> Shell:
    return studio(writer, make_access(), data)


@pytest.fixture(autouse=True)
def no_work(monkeypatch: pytest.MonkeyPatch, data: Path) -> Iterator[None]:
    """Nothing of what is refused may reach the model or the disk."""
    begun: list[str] = []

    async def refuse(*given: Any, **more: Any) -> None:
        begun.append("work")

    monkeypatch.setattr(Scribe, "run", refuse)
    before = kept(data)
    yield
    assert begun == []
    assert kept(data) == before


def kept(data: Path) -> tuple[list[str], set[Path]]:
    """What the projects' file says, and the other files but the locks of servers."""
    with closing(sqlite3.connect(data / NAME)) as projects:
        said = list(projects.iterdump())
    return said, {path for path in data.rglob("*") if not path.name.startswith((NAME, "server-"))}


def doors(shell: Shell) -> Doors:
    """Every method and path of the application; parameters of paths are filled in."""
    app: Any = shell.app
    found = [
        (method, re.sub(r"\{[^}]*\}", "1", route.path or ""))
        for route in iter_route_contexts(app.routes)
        for method in sorted((route.methods or set()) - {"HEAD", "OPTIONS"})
    ]
    expected = {("POST", "/v1/completions"), ("POST", "/api/stories"), ("GET", "/api/model"), ("DELETE", "/api/jobs/1")}
    assert expected <= set(found)
    return found


def writes(shell: Shell) -> Doors:
    return [(method, path) for method, path in doors(shell) if method in ("POST", "PUT", "PATCH")]


def with_body(shell: Shell, method: str, path: str, body: bytes = BODY, **given: Any) -> Answer:
    headers = given.pop("headers", [JSON])
    return ask(shell, method, path, body=body, headers=headers, **given)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.", "127.0.0.1@evil.example", "10.0.0.1", "", None]
)
def test_no_route_answers_to_another_name(shell, host):
    for method, path in doors(shell):
        assert with_body(shell, method, path, host=host).status == 421, (method, path)
        two = [JSON, ("host", "evil.example")]
        assert with_body(shell, method, path, headers=two).status == 421, (method, path)


def test_reads_are_answered_under_every_name_of_this_machine(shell):
    for host in ("127.0.0.1", "localhost:8000", "[::1]:8000"):
        assert ask(shell, path="/api/model", host=host).status == 200


@pytest.mark.parametrize(
    "header",
    [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1.evil.example:8000"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ],
)
def test_no_page_of_another_site_writes(shell, header):
    for method, path in doors(shell):
        if method != "GET":
            assert with_body(shell, method, path, headers=[JSON, header]).status == 403, (method, path)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_no_route_takes_what_a_form_sends(shell, kind):
    for method, path in writes(shell):
        assert with_body(shell, method, path, headers=[("content-type", kind)]).status == 415, (method, path)
        assert with_body(shell, method, path, headers=[]).status == 415, (method, path)


@pytest.mark.parametrize("name", BODIES)
def test_no_route_takes_such_a_body(shell, name):
    for method, path in writes(shell):
        answer = with_body(shell, method, path, BODIES[name])
        assert answer.status == 400, (method, path)
        assert answer.json["error"]["message"].startswith("body: "), (method, path)


@pytest.mark.parametrize("value", [[], "text", 7, True, {"no such field": 1}, {"prompt": {"$ne": 1}, "n": 10**9}])
def test_values_of_another_kind_are_typed_errors(shell, value):
    for method, path in writes(shell):
        answer = ask(shell, method, path, value=value)
        assert 400 <= answer.status < 500, (method, path, answer.status)
        assert set(answer.json["error"]) == {"message", "type", "param", "code"}


def test_large_bodies_are_refused_whether_or_not_they_say_how_long_they_are(shell):
    large = b'{"prompt": "' + b"a" * 10_000_000 + b'"}'
    pieces = [large[at : at + 1_000_000] for at in range(0, len(large), 1_000_000)]
    for method, path in writes(shell):
        assert with_body(shell, method, path, large).status == 413, (method, path)
        assert ask(shell, method, path, headers=[JSON], body=pieces).status == 413, (method, path)
        lying = [JSON, ("content-length", "99999999999999999999")]
        assert ask(shell, method, path, headers=lying, body=[b"{"]).status == 413, (method, path)
    assert MOST_BODY_BYTES < 10_000_000


def test_too_many_headers_and_too_long_addresses_are_refused(shell):
    for method, path in doors(shell):
        many = [JSON, *[("x-a", "b")] * 1_000]
        assert with_body(shell, method, path, headers=many).status == 431, (method, path)
        assert with_body(shell, method, path, headers=[JSON, ("cookie", "a" * 20_000)]).status == 431, (method, path)
        assert with_body(shell, method, f"{path}?{'a' * 9_000}").status == 414, (method, path)


def test_on_another_address_every_route_asks_for_the_token(writer, data):
    access = make_access("0.0.0.0", 8000, allow_hosts=["127.0.0.1"])
    shell = studio(writer, access, data)
    wrong: list[list[tuple[str, str]]] = [
        [], [("authorization", "Bearer wrong")], [("authorization", f"Basic {access.token}")],
        [("cookie", f"{access.cookie}=wrong")], [("cookie", f"other={access.token}")],
    ]  # fmt: skip
    for method, path in doors(shell):
        for headers in wrong:
            assert with_body(shell, method, path, headers=[JSON, *headers]).status == 401, (method, path)
        assert with_body(shell, method, f"{path}?token=wrong").status == 401, (method, path)
    assert ask(shell, path="/api/model", headers=[("authorization", f"Bearer {access.token}")]).status == 200
    assert ask(shell, path=HEALTH).status == 200
    assert ask(shell, path="/no/such/route").status == 401  # what there is, is not told either


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(shell, path):
    for method in ("GET", "DELETE"):
        answer = ask(shell, method, path)
        assert answer.status in (400, 404, 405, 422), (method, path)
        assert b"root:" not in answer.body
        assert answer.header("content-type") == "application/json"


def test_other_methods_are_refused(shell):
    for _, path in doors(shell):
        for method in ("TRACE", "PATCH", "CONNECT", "PROPFIND"):
            assert with_body(shell, method, path).status == 405, (method, path)


def test_every_answer_has_the_headers_that_keep_a_page_closed(shell):
    for method, path in doors(shell):
        refused = with_body(shell, method, path, headers=[JSON, ("origin", "http://evil.example")])
        answers = [refused, ask(shell, path=path, host="evil.example")]
        if method == "GET" and "{" not in path and path in ("/", "/api/model", "/api/codes", "/v1/models"):
            answers.append(ask(shell, path=path, headers=[("origin", "http://evil.example")]))
        for answer in answers:
            policy = answer.header("content-security-policy") or ""
            assert "default-src 'none'" in policy, (method, path)
            assert "unsafe" not in policy
            assert answer.header("x-content-type-options") == "nosniff"
            assert answer.header("referrer-policy") == "no-referrer"
            assert not [name for name, _ in answer.headers if name.startswith("access-control")]
            assert answer.header("server") is None


def test_clients_that_send_slowly_are_answered_or_dropped_and_start_nothing(writer, data):
    made = make_access()
    shell = studio(writer, made, data)
    shell.body_seconds = 0.3
    heads = {
        door: f"{' '.join(door)} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        for door in writes(shell)
    }
    with running(shell, made, head_seconds=0.3, send_seconds=0.3) as access:
        halves = raw_at_once(access, [f"{head}content-length: 100\r\n\r\n{{".encode() for head in heads.values()])
        endless = raw_at_once(access, [head.encode() for head in heads.values()])
        for door, half, nothing in zip(heads, halves, endless, strict=True):
            assert half.startswith(b"HTTP/1.1 408"), door
            assert nothing == b"", door
        assert raw(access, b"GET /api/model HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
