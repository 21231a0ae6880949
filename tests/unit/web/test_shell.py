"""The shell refuses what strangers send, each with the right status, and nothing of it reaches a route."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel
from unit.web.asking import JSON, ask

from discodvt.errors import BadRequest
from discodvt.web.access import HEALTH, HttpError, make_access
from discodvt.web.application import add_files, in_shell, make_app
from discodvt.web.shell import MOST_BODY_BYTES, Shell
from discodvt.web.strict_json import parse_json

DEEP = b"[" * 10_000 + b"]" * 10_000
BRACKETS = b'{"text": "' + b"[" * 10_000 + b'"}'


class Note(BaseModel):
    text: str = ""
    n: int = 1


def build(**access: Any) -> tuple[Shell, list[str]]:
    """A small application with a read, a write, a page and errors; and what reached its routes."""
    made = make_access(**access)
    app, reached = make_app("test"), list[str]()
    add_files(app, "discodvt.judging", {"/": "pages/judge.html"})
    add_files(app, "discodvt.report", {"/report.js": "templates/report.js"})

    @app.get("/api/notes")
    def read() -> dict[str, str]:
        reached.append("read")
        return {"text": "secret"}

    @app.post("/api/notes")
    def write(note: Note) -> dict[str, str]:
        reached.append(note.text)
        return {"text": note.text}

    @app.delete("/api/notes")
    def remove() -> dict[str, str]:
        reached.append("removed")
        return {}

    @app.get("/api/wrong/{kind}")
    def wrong(kind: str) -> None:
        raise {"bad": BadRequest("`seed` -1: expected 0 or more", "seed"), "gone": HttpError(409, "changed")}.get(
            kind, KeyError("a secret of the server")
        )

    return in_shell(app, made), reached


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]", "[::1]:8000"])
def test_names_of_this_machine_are_answered(host: str) -> None:
    app, _ = build()
    assert ask(app, path="/api/notes", host=host).json == {"text": "secret"}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.",
        "localhost:80:80",
        "127.0.0.1@evil.example",
        "",
        None,
        "printer.local",
        "192.168.0.2",
        "10.0.0.1:8000",
        "[::2]",
        "::1",
        "localhost evil.example",
        "localhost:8000/x",
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/notes", HEALTH, "/nothing"])
def test_any_other_name_is_misdirected(host: str | None, path: str) -> None:
    app, reached = build()
    answer = ask(app, path=path, host=host)
    assert answer.status == 421
    assert answer.json["error"]["type"] == "misdirected_request"
    assert reached == []


def test_two_hosts_are_none() -> None:
    app, reached = build()
    assert ask(app, path="/api/notes", headers=[("host", "evil.example")]).status == 421
    assert ask(app, path="/api/notes", headers=[("host", "127.0.0.1:8000")]).status == 421
    assert reached == []


def test_a_name_can_be_allowed_and_only_that_one() -> None:
    app, _ = build(allow_hosts=["study.example.org"])
    assert ask(app, host="study.example.org:8000").status == 200
    assert ask(app, host="x.study.example.org").status == 421
    for name in ("*", "http://a", "a:80", "a/b", ""):
        with pytest.raises(BadRequest, match="expected a name"):
            make_access(allow_hosts=[name])


FOREIGN = [
    [("origin", "http://evil.example")],
    [("origin", "null")],
    [("origin", "http://localhost:9999")],  # another server of this machine
    [("origin", "http://127.0.0.1:8000.evil.example")],
    [("origin", "http://127.0.0.1:8000"), ("origin", "http://evil.example")],
    [("sec-fetch-site", "cross-site")],
    [("sec-fetch-site", "same-site")],
    [("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "cross-site")],
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "QUERY"])
def test_pages_of_other_sites_do_not_write(headers: Sequence[tuple[str, str]], method: str) -> None:
    app, reached = build()
    assert ask(app, method, "/api/notes", headers=headers, value={"text": "x"}).status == 403
    assert reached == []


@pytest.mark.parametrize(
    "headers",
    [[], [("origin", "http://127.0.0.1:8000")], [("sec-fetch-site", "same-origin")], [("sec-fetch-site", "none")]],
)
def test_our_page_and_programs_write(headers: Sequence[tuple[str, str]]) -> None:
    app, reached = build()
    assert ask(app, "POST", "/api/notes", headers=headers, value={"text": "kept"}).json == {"text": "kept"}
    assert reached == ["kept"]
    assert ask(app, "DELETE", "/api/notes", headers=headers).status == 200


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        None,
        "text/plain; application/json",
        "application/json; charset=utf-16",
    ],
)
def test_only_json_is_written(kind: str | None) -> None:
    app, reached = build()
    headers = [("content-type", kind)] if kind else []
    assert ask(app, "POST", "/api/notes", headers=headers, body=b'{"text": "x"}').status == 415
    assert ask(app, "POST", "/api/notes", headers=[JSON, *headers, JSON], body=b"{}").status == 415
    assert reached == []


def test_no_cors_headers_unless_an_origin_is_allowed_and_then_exactly_that_one() -> None:
    site = ("origin", "https://app.example.org")
    asks = [("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")]
    for allowed in ([], ["https://app.example.org"]):
        app, _ = build(cors_origins=allowed)
        for headers, welcome in (([site], bool(allowed)), ([("origin", "https://evil.example")], False)):
            answers = [
                ask(app, path="/api/notes", headers=headers),
                ask(app, "OPTIONS", "/api/notes", headers=[*headers, *asks]),
                ask(app, "POST", "/api/notes", headers=headers, value={}),
                ask(app, path="/nothing", headers=headers),
            ]
            for answer in answers:
                assert answer.header("access-control-allow-origin") == (site[1] if welcome else None)
                assert answer.header("access-control-allow-credentials") is None
            assert answers[2].status == (200 if welcome else 403)
    for origin in ("*", "https://*.example.org", "example.org", "https://a/b"):
        with pytest.raises(BadRequest, match="expected one origin"):
            make_access(cors_origins=[origin])


def test_on_any_other_address_every_route_but_health_wants_the_token() -> None:
    app, reached = build(host="0.0.0.0", port=8000)
    token = app.access.token
    assert token is not None
    assert len(token) >= 32
    routes = [(method, route.path) for route in app.app.routes for method in route.methods]  # type: ignore[attr-defined]
    assert len(routes) >= 5
    for method, path in [*routes, ("GET", "/nothing"), ("OPTIONS", "/api/notes")]:
        path = path.replace("{kind}", "bad")
        for sent in ([], [("authorization", "Bearer x")], [("authorization", token)], [("cookie", "discodvt-8000=x")]):
            answer = ask(app, method, path, headers=sent, value={} if method == "POST" else None)
            assert answer.status == 401, (method, path)
            assert answer.header("set-cookie") is None
        assert ask(app, method, f"{path}?token=x", value={} if method == "POST" else None).status == 401
    assert ask(app, path=HEALTH).json == {"status": "ok"}
    assert reached == []
    assert ask(app, path="/api/notes", headers=[("authorization", f"Bearer {token}")]).status == 200
    opened = ask(app, path=f"/?token={token}")
    cookie = opened.header("set-cookie")
    assert cookie == f"discodvt-8000={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000"
    assert ask(app, path="/api/notes", headers=[("cookie", f"a=b; {cookie.split(';')[0]}")]).status == 200
    cross = [("cookie", cookie.split(";")[0]), ("origin", "http://evil.example")]
    assert ask(app, "POST", "/api/notes", headers=cross, value={}).status == 403


def test_loopback_has_the_token_it_is_given_and_every_other_address_one_in_any_case() -> None:
    assert make_access(token="kept").token == "kept"
    assert [make_access(host).token for host in ("127.0.0.1", "127.0.0.2", "localhost", "::1")] == [None] * 4
    tokens = {make_access(host).token for host in ("0.0.0.0", "::", "", "192.168.0.2", "example.org", "0.0.0.0")}
    assert None not in tokens
    assert len(tokens) == 6
    assert make_access("0.0.0.0", token="kept").token == "kept"


@pytest.mark.parametrize("path", ["/", "/report.js", "/api/notes", "/nothing", HEALTH, "/api/wrong/bad"])
def test_every_answer_has_the_security_headers(path: str) -> None:
    app, _ = build()
    for answer in (ask(app, path=path), ask(app, path=path, host="evil.example")):
        policy = answer.header("content-security-policy") or ""
        for part in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
            assert part in policy
        assert "unsafe" not in policy
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "no-referrer"
        assert answer.header("cross-origin-resource-policy") == "same-origin"
        assert answer.header("server") is None


@pytest.mark.parametrize(
    "path",
    [
        "/../pyproject.toml",
        "/..",
        "//etc/passwd",
        "/etc/passwd",
        "/%2e%2e/x",
        "/report.js/",
        "/report.js\x00",
        "//",
        "/..\\base.html",
        "/templates/base.html",
        "/base.html",
        "/report.JS",
        "file:///etc/passwd",
        "/report.js/../x",
    ],
)
def test_no_path_of_a_client_names_a_file(path: str) -> None:
    app, _ = build()
    answer = ask(app, path=path)
    assert answer.status == 404
    assert answer.json["error"]["type"] == "not_found_error"


def test_files_of_the_table_are_served_as_what_they_are() -> None:
    app, _ = build()
    script = ask(app, path="/report.js")
    assert script.header("content-type") == "text/javascript; charset=utf-8"
    etag = script.header("etag")
    assert etag is not None
    assert ask(app, path="/report.js", headers=[("if-none-match", etag)]).status == 304
    assert ask(app, "POST", "/report.js", value={}).status == 405
    page = ask(app, path="/")
    assert page.header("content-type") == "text/html; charset=utf-8"
    assert page.body.startswith(b"<!doctype html>")
    assert page.body.count(b"<head>") == page.body.count(b"<title>") == 1


def test_a_body_is_counted_while_it_arrives() -> None:
    app, reached = build()
    ten_megabytes = [b" " * 65536] * 160
    for body in (b" " * (MOST_BODY_BYTES + 1), ten_megabytes, [b" " * 65536] * 400):
        answer = ask(app, "POST", "/api/notes", headers=[JSON], body=body)
        assert answer.status == 413
        assert answer.header("connection") == "close"
    for length in (str(10**12), "-1", "x"):
        refused = ask(app, "POST", "/api/notes", headers=[JSON, ("content-length", length)], body=[b"{}"])
        assert refused.status == 413
    assert reached == []
    filler = MOST_BODY_BYTES - len(b'{"text": ""}')
    whole = b'{"text": "' + b"x" * filler + b'"}'
    assert ask(app, "POST", "/api/notes", headers=[JSON], body=[whole[:100], whole[100:]]).status == 200
    assert len(reached[0]) == filler


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'{"n": NaN}',
        b'{"n": Infinity}',
        b'{"n": -Infinity}',
        b'{"n": 1e999}',
        b'{"n": ' + b"9" * 100_000 + b"}",
        b'{"text": "\\ud800"}',
        b'{"text": "\xff"}',
        b'{"text": "a", "text": "b"}',
        b"{",
        b"",
        b"\xef\xbb\xbf{}",
        b"{}{}",
        b'{"text": "a\nb"}',
        b'["' + b"\\" * 1001 + b'"',
    ],
)
def test_json_that_is_none_or_too_much_is_refused(body: bytes) -> None:
    app, reached = build()
    answer = ask(app, "POST", "/api/notes", headers=[JSON], body=body)
    assert answer.status in (400, 422)
    assert answer.status == 400 or body == b""
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert reached == []


def test_a_body_of_quotes_takes_no_time() -> None:
    started = time.process_time()
    with pytest.raises(ValueError, match="Unterminated"):
        parse_json(b'"' + b'\\"' * 130_000)
    assert time.process_time() - started < 2


def test_brackets_in_a_text_are_no_nesting() -> None:
    app, reached = build()
    assert ask(app, "POST", "/api/notes", headers=[JSON], body=BRACKETS).status == 200
    assert reached == ["[" * 10_000]


def test_too_many_headers_and_too_long_addresses() -> None:
    app, reached = build()
    for headers in ([(f"x-{number}", "1") for number in range(1000)], [("x-long", "x" * 20_000)]):
        assert ask(app, path="/api/notes", headers=headers).status == 431
    assert ask(app, path="/api/notes?" + "x" * 10_000).status == 414
    assert reached == []


def test_a_body_that_does_not_come_is_waited_for_only_so_long() -> None:
    app, reached = build()
    app.body_seconds = 0.05
    answer = ask(app, "POST", "/api/notes", headers=[JSON, ("content-length", "10")])
    assert answer.status == 408
    assert reached == []


def test_errors_have_one_shape_and_tell_nothing_of_the_server() -> None:
    app, _ = build()
    assert ask(app, path="/api/wrong/bad").json == {
        "error": {
            "message": "`seed` -1: expected 0 or more", "type": "invalid_request_error", "param": "seed", "code": 400,
        }
    }  # fmt: skip
    assert ask(app, path="/api/wrong/gone").json["error"]["type"] == "conflict_error"
    secret = "do not repeat this"
    answer = ask(app, "POST", "/api/notes", value={"n": secret})
    assert answer.status == 422
    assert answer.json["error"]["param"] == "n"
    assert secret.encode() not in answer.body
    assert ask(app, "PUT", "/api/notes", value={}).status == 405
