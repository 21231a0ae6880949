"""The server over real sockets: broken, large and slow requests cost nothing; a taken port is one clear line."""

import os
import signal
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import psutil
import pytest
from unit.web.asking import raw, raw_at_once, running

from discodvt.errors import BadRequest
from discodvt.web.access import Access, make_access
from discodvt.web.application import in_shell, make_app
from discodvt.web.lane import Lane
from discodvt.web.server import READ_COST, SEND_BYTES, TOKEN, address_of, bind, kept_token, serve

HEAD = b"GET /api/small HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
QUICK = {"head_seconds": 0.3, "send_seconds": 0.3}


PIECE = b"x" * SEND_BYTES
LONG = 70 * SEND_BYTES
made: list[float] = []  # when the pieces of the endless answer were made


@pytest.fixture(scope="module")
def access() -> Iterator[Access]:
    from fastapi.responses import Response, StreamingResponse

    app = make_app("test")

    @app.get("/api/small")
    def small() -> dict[str, str]:
        return {"text": "here"}

    @app.post("/api/small")
    def write() -> dict[str, str]:
        return {"text": "written"}

    @app.get("/api/fault")
    def fault() -> None:
        raise KeyError("a secret of the server")

    @app.get("/api/long")
    def long() -> Response:
        return Response(bytes(LONG))

    @app.get("/api/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                made.append(time.monotonic())
                yield PIECE

        return StreamingResponse(pieces())

    opened = make_access()
    shell = in_shell(app, opened)
    shell.body_seconds = 0.3
    with running(shell, opened, **QUICK) as found:
        yield found


def get(access: Access, path: str = "/api/small") -> tuple[int, bytes]:
    with closing(HTTPConnection("127.0.0.1", access.port, timeout=10)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (HEAD + b"\r\n", 200),
        (HEAD.replace(b"localhost", b"evil.example") + b"\r\n", 421),
        (HEAD.replace(b"localhost", b"localhost.") + b"\r\n", 421),
        (b"GET / HTTP/1.0\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", 400),  # h11 itself refuses no host, and two
        (HEAD + b"host: evil.example\r\n\r\n", 400),
        (HEAD + b"".join(b"x-%d: 1\r\n" % number for number in range(1000)) + b"\r\n", 431),
        (HEAD.replace(b"/api/small", b"/%2e%2e/%2e%2e/etc/passwd") + b"\r\n", 404),
        (HEAD.replace(b"/api/small", b"/..%5c..%5cetc/passwd") + b"\r\n", 404),
        (HEAD.replace(b"/api/small", b"/%00") + b"\r\n", 404),
        (HEAD.replace(b"/api/small", b"http://evil.example/api/small") + b"\r\n", 404),
        (b"\x16\x03\x01\x02\x00" + b"\x00" * 100, 400),
        (HEAD + b"upgrade: websocket\r\n\r\n", 200),
    ],
)
def test_requests_as_bytes(access: Access, data: bytes, status: int) -> None:
    assert raw(access, data).startswith((b"HTTP/1.1 %d " % status, b"HTTP/1.0 %d " % status))
    assert get(access)[0] == 200


def test_a_header_of_a_megabyte_is_not_kept(access: Access) -> None:
    answer = raw(access, HEAD + b"x-long: " + b"x" * 1_000_000 + b"\r\n\r\n")
    assert answer[9:12] in (b"400", b"431", b"")  # closed while it is still being sent, the answer may be lost
    assert get(access)[0] == 200


def test_ten_megabytes_without_a_length_are_refused_and_not_kept(access: Access) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    for _ in range(5):
        with closing(HTTPConnection("127.0.0.1", access.port, timeout=10)) as connection:
            pieces = (b"x" * 65536 for _ in range(160))
            connection.request("POST", "/api/small", pieces, {"content-type": "application/json"}, encode_chunked=True)
            assert connection.getresponse().status == 413
    assert process.memory_info().rss - before < 8 * 1024 * 1024


def test_a_fault_of_ours_is_a_500_without_its_details(access: Access) -> None:
    status, body = get(access, "/api/fault")
    assert status == 500
    assert b"secret" not in body
    assert b"api_error" in body


def drip(connection: socket.socket) -> None:
    """A byte now and then, until the server has had enough."""
    deadline = time.monotonic() + 4
    with suppress(ConnectionError):
        while time.monotonic() < deadline:
            connection.sendall(b"x")
            time.sleep(0.02)
    assert time.monotonic() < deadline


def test_a_head_that_does_not_come_is_not_waited_for(access: Access) -> None:
    assert raw_at_once(access, [HEAD, b""]) == [b"", b""]
    with socket.create_connection(("127.0.0.1", access.port), timeout=10) as connection:
        drip(connection)
    with socket.create_connection(("127.0.0.1", access.port), timeout=10) as connection:
        connection.sendall(HEAD.replace(b"connection: close\r\n", b"") + b"\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        drip(connection)  # the second head of a connection is timed as the first


def test_a_body_that_does_not_come_is_a_408(access: Access) -> None:
    head = HEAD.replace(b"GET", b"POST") + b"content-type: application/json\r\ncontent-length: 9\r\n\r\n{"
    assert raw(access, head).startswith(b"HTTP/1.1 408 ")


def test_for_a_client_that_does_not_read_little_is_made(access: Access) -> None:
    made.clear()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", access.port))
        connection.sendall(HEAD.replace(b"small", b"endless") + b"\r\n")
        time.sleep(0.1)
        assert len(made) <= 4  # two in the socket, one that waits for it
        while len(made) < 10:  # one that reads gets as much as it likes
            assert connection.recv(1 << 20)


def test_a_slow_client_that_reads_gets_a_long_answer_whole(access: Access) -> None:
    found, started = 0, time.monotonic()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SEND_BYTES)
        connection.settimeout(10)
        connection.connect(("127.0.0.1", access.port))
        connection.sendall(HEAD.replace(b"small", b"long") + b"\r\n")
        while piece := connection.recv(SEND_BYTES):
            found += len(piece)
            time.sleep(0.01)
    assert found > LONG
    assert time.monotonic() - started > 2 * QUICK["send_seconds"]


def test_clients_that_never_read_are_dropped_and_slow_nobody(access: Access) -> None:
    greedy = []
    for _ in range(20):
        connection = socket.create_connection(("127.0.0.1", access.port), timeout=10)
        connection.sendall(HEAD.replace(b"small", b"endless") + b"\r\n")
        greedy.append(connection)
    for _ in range(20):  # on a busy machine the head of the good one may be late too, and is dropped
        with suppress(ConnectionError):
            assert get(access)[0] == 200
            break
    else:
        pytest.fail("nobody else is answered")
    ends = time.monotonic() + 60
    while held_by(access.port) and time.monotonic() < ends:
        time.sleep(0.1)
    assert held_by(access.port) == 0  # though nobody read, and nobody left
    for connection in greedy:
        connection.close()


def held_by(port: int) -> int:
    """Connections that a server of this process has open."""
    found = psutil.Process().net_connections("tcp")
    return sum(each.laddr.port == port and each.status == psutil.CONN_ESTABLISHED for each in found)


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(BadRequest, match=f"`port` {port}: already in use on 127.0.0.1") as error:
            bind(make_access(port=port))
        assert error.value.parameters == ("port",)
        assert error.value.exit_code == 2


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "x" * 300])
def test_an_address_that_is_not_ours_is_one_line(host: str) -> None:
    with pytest.raises(BadRequest, match="`host`"):
        bind(make_access(host))


def test_the_address_to_open_has_the_token_where_one_is_asked_for() -> None:
    assert address_of(make_access(port=8000)) == "http://127.0.0.1:8000/"
    assert address_of(make_access("::1", 8000), "/a") == "http://[::1]:8000/a"
    assert address_of(make_access("0.0.0.0", 8000, token="t")) == "http://127.0.0.1:8000/?token=t"


def test_a_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    token = kept_token(tmp_path / "new")
    assert len(token) >= 32
    assert kept_token(tmp_path / "new") == token
    assert kept_token(tmp_path / "other") != token
    assert os.name == "nt" or stat.S_IMODE((tmp_path / "new" / TOKEN).stat().st_mode) == 0o600
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match="no token can be kept there"):
        kept_token(tmp_path / "file")


def test_serving_takes_a_free_port_says_where_and_ends_by_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGINT is what a terminal sends; the server ends well, the browser opens only when wanted."""
    opened: list[str] = []
    announced: list[str] = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened.append)

    def interrupt(address: str) -> None:
        while get_status(address) != 200:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    def announce(address: str) -> None:
        announced.append(address)
        threading.Thread(target=interrupt, args=(address,)).start()

    for wanted in (True, False):
        serve(lambda found: in_shell(make_app("x"), found), make_access(), announce=announce, open_browser=wanted)
    assert opened == announced[:1]
    assert not any(address.endswith(":0/") for address in announced)


def get_status(address: str) -> int:
    with closing(HTTPConnection("127.0.0.1", int(address.rstrip("/").split(":")[-1]), timeout=10)) as connection:
        connection.request("GET", "/api/health")
        return connection.getresponse().status


def test_requests_that_only_read_wait_for_stories_and_others_do_not(monkeypatch):
    monkeypatch.setattr("discodvt.web.lane.PATIENCE", 1e9)
    app = make_app("test")
    asked, writing = [], [0.0]

    @app.get("/api/read/{name}")
    def read(name: str) -> str:
        asked.append(name)
        return name

    @app.post("/api/write")
    def write() -> str:
        return "written"

    bare = make_access()
    shell = in_shell(app, bare, lane=Lane(lambda: writing[0]))
    with running(shell, bare, **QUICK) as access:

        def connected(head: str) -> socket.socket:
            found = socket.create_connection(("127.0.0.1", access.port), timeout=10)
            found.sendall(f"{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".encode())
            return found

        def ended(waiting: socket.socket) -> bytes:
            with closing(waiting):
                return b"".join(iter(lambda: waiting.recv(65536), b""))

        with connected("GET /api/read/first") as first:
            first.sendall(b"\r\n")
            assert ended(first).endswith(b'"first"')
        waiting = []
        for _ in range(3):  # one after the other into the lane
            waiting.append(connected("GET /api/read/same"))
            waiting[-1].sendall(b"\r\n")
            time.sleep(0.05)
        post = connected("POST /api/write")
        post.sendall(b"content-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        assert ended(post).endswith(b'"written"')
        time.sleep(2 * QUICK["head_seconds"])  # their heads are here: they are not dropped
        assert asked == ["first"]
        writing[0] += READ_COST
        assert ended(waiting.pop()).endswith(b'"same"')  # who came last
        assert asked == ["first", "same"]
        slow = connected("GET /api/read/slow")  # half a head has its time, as ever
        assert ended(slow) == b""
        waiting.pop().close()
        writing[0] += READ_COST
        assert ended(waiting.pop()).endswith(b'"same"')  # whoever left costs no turn
        assert asked == ["first", "same", "same"]


def test_requests_sent_one_behind_the_other_wait_each(monkeypatch):
    monkeypatch.setattr("discodvt.web.lane.PATIENCE", 1e9)
    app = make_app("test")
    asked, writing = [], [0.0]

    @app.get("/api/read")
    def read() -> str:
        asked.append(1)
        return "read"

    bare = make_access()
    with (
        running(in_shell(app, bare, lane=Lane(lambda: writing[0])), bare, **QUICK) as access,
        socket.create_connection(("127.0.0.1", access.port), timeout=10) as connection,
    ):
        connection.sendall(b"GET /api/read HTTP/1.1\r\nhost: localhost\r\n\r\n" * 3)
        for count in (1, 2, 3):
            found = b""
            while not found.endswith(b'"read"'):
                found += connection.recv(65536)
            time.sleep(0.1)
            assert len(asked) == count
            writing[0] += READ_COST
