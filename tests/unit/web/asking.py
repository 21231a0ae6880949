"""Requests to an ASGI application: in this process, or over a real socket to a server in a thread."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from discodvt.web.access import Access
from discodvt.web.server import bind, make_server
from discodvt.web.shell import App

JSON = ("content-type", "application/json")


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


def ask(
    app: App,
    method: str = "GET",
    path: str = "/",
    *,
    headers: Sequence[tuple[str, str]] = (),
    host: str | None = "127.0.0.1:8000",
    body: bytes | Sequence[bytes] | None = None,
    value: Any = None,
) -> Answer:
    """One request in this process; `body` in pieces has no declared length, `value` is sent as JSON."""
    if value is not None:
        body, headers = json.dumps(value).encode(), [JSON, *headers]
    pieces = [body] if isinstance(body, bytes) else list(body or [])
    sent = [("host", host)] * (host is not None) + list(headers)
    if isinstance(body, bytes):
        sent.append(("content-length", str(len(body))))
    elif body is not None:
        sent.append(("transfer-encoding", "chunked"))
    raw, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw,
        "raw_path": raw.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), text.encode("latin-1")) for name, text in sent],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    messages = [
        {"type": "http.request", "body": piece, "more_body": number + 1 < len(pieces)}
        for number, piece in enumerate(pieces)
    ]
    answer = Answer(0, [], b"")

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = [(name.decode(), text.decode()) for name, text in message["headers"]]
        else:
            answer.body += message.get("body", b"")

    asyncio.run(app(scope, receive, send))
    return answer


@contextmanager
def running(app: App, access: Access, **patience: float) -> Iterator[Access]:
    """A server of an application in a thread; yields its access with the port."""
    listening = bind(access)
    server = make_server(app, **patience)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield replace(access, port=listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()


def raw(access: Access, data: bytes) -> bytes:
    """Bytes sent as they are; everything the server answers until it closes the connection."""
    return raw_at_once(access, [data])[0]


def raw_at_once(access: Access, sent: Sequence[bytes]) -> list[bytes]:
    """The same over as many connections, none of which waits for another."""
    found = [b""] * len(sent)
    with ExitStack() as held:
        connections = []
        for data in sent:
            connections.append(held.enter_context(socket.create_connection(("127.0.0.1", access.port), timeout=10)))
            with suppress(ConnectionError):  # a reset is one way to close
                connections[-1].sendall(data)
        for number, connection in enumerate(connections):
            with suppress(ConnectionError):
                while piece := connection.recv(65536):
                    found[number] += piece
    return found
