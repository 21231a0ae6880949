"""The studio's server in a process of its own, and clients that ask it over sockets, for `bench.serve`."""

import asyncio
import json
import multiprocessing
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import torch

from discodvt.errors import WorkFailed

START_SECONDS = 300.0
STREAM = "text/event-stream"
IDLE_SECONDS = 0.002  # of CPU time within a tenth of a second
ESTABLISHED, CLOSE_WAIT = "01", "08"  # in /proc/net/tcp
SMALL_BUFFER = 2048  # bytes; what a client that never reads leaves unread is soon too much for its socket


@dataclass(frozen=True, slots=True)
class StoryServer:
    """Where it listens, and its process."""

    port: int
    pid: int

    @property
    def memory(self) -> int:
        """Bytes it holds now; 0 where the system does not say."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return 0
        return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)

    @property
    def cpu_seconds(self) -> float:
        """CPU time of its threads; on a machine that others use too this is a measure, the clock is none."""
        try:
            times = [(task / "schedstat").read_text() for task in Path(f"/proc/{self.pid}/task").iterdir()]
        except OSError:
            raise WorkFailed("CPU time of a process is read from /proc, which this system has not") from None
        return sum(int(each.split()[0]) for each in times) / 1e9

    def stalled(self, answer_bytes: int) -> int:
        """Connections of clients that read nothing, and of whose answer of so many bytes not all is in the sockets."""
        waiting = [int(queues.split(":")[0], 16) for queues in self._queues()]
        return sum(sent > 0 and sent + 2 * SMALL_BUFFER < answer_bytes for sent in waiting)

    def wait_idle(self) -> None:
        """Wait until it computes nothing any more: all are answered that can be."""
        ends, idle, before = time.monotonic() + START_SECONDS, 0, self.cpu_seconds
        while idle < 3 and time.monotonic() < ends:
            time.sleep(0.1)
            now = self.cpu_seconds
            idle, before = idle + 1 if now - before < IDLE_SECONDS else 0, now

    def _notice(self) -> None:
        """Ask until the server answers: by then it knows of the clients that left, and has room for others."""
        ends = time.monotonic() + START_SECONDS
        while time.monotonic() < ends:
            with suppress(HTTPError):  # 503: too many connections
                self.read("/api/health")
                return
            time.sleep(0.1)

    def _queues(self) -> list[str]:
        """Bytes to send and to read of each of its open connections."""
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        held = (ESTABLISHED, CLOSE_WAIT)
        return [line[4] for line in lines if line[1].endswith(f":{self.port:04X}") and line[3] in held]

    def read(self, path: str) -> bytes:
        """GET a path."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}") as answer:
            return bytes(answer.read())

    def ask(
        self, asked: Sequence[tuple[str, dict[str, Any]]], *, at_once: int | None = None, accept: str = STREAM
    ) -> list[bytes]:
        """POST values to paths, all at the same time or so many at a time; the bodies of the answers, in order."""
        return asyncio.run(self._ask_all(asked, at_once or len(asked), accept))

    @contextmanager
    def never_reading(self, clients: int, path: str, *, times: int = 1) -> Iterator[None]:
        """Clients that ask for a path so many times and read no answer; at the end the server has let go of them."""
        request = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
        sockets = []
        try:
            for _ in range(clients):
                each = socket.socket()
                sockets.append(each)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
                each.connect(("127.0.0.1", self.port))
                each.sendall(request * times)
            yield
        finally:
            for each in sockets:
                each.close()
            self._notice()

    async def _ask_all(self, asked: Sequence[tuple[str, dict[str, Any]]], at_once: int, accept: str) -> list[bytes]:
        turns = asyncio.Semaphore(at_once)

        async def one(path: str, value: dict[str, Any]) -> bytes:
            async with turns:
                return await self._post(path, value, accept)

        return await asyncio.gather(*(one(path, value) for path, value in asked))

    async def _post(self, path: str, value: dict[str, Any], accept: str) -> bytes:
        reading, writing = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(value).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writing.write(f"{head}accept: {accept}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reading.read()
        writing.close()
        top, _, rest = answer.partition(b"\r\n\r\n")
        if not top.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
            raise WorkFailed(f"{path}: the server answered {top[:12]!r} {rest[:200]!r}")
        return _unchunked(rest) if b"transfer-encoding: chunked" in top.lower() else rest


@contextmanager
def story_server(model: str, *, rows: int) -> Iterator[StoryServer]:
    """A server of a writer's directory, with as many threads as this process has."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(model, rows, torch.get_num_threads(), there), daemon=True)
    process.start()
    try:
        if not here.poll(START_SECONDS):
            raise WorkFailed(f"the server of {model} did not start within {START_SECONDS:.0f} seconds")
        port = urlsplit(here.recv()).port
        assert port is not None
        assert process.pid is not None
        yield StoryServer(port, process.pid)
    finally:
        process.terminate()
        process.join()


def events(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a body: their names and data."""
    found = []
    for block in body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def _serve(model: str, rows: int, threads: int, announced: Connection) -> None:
    from discodvt.studio.server import make_studio
    from discodvt.web.access import make_access
    from discodvt.web.server import serve
    from discodvt.writing import StoryWriter

    torch.set_num_threads(threads)
    writer = StoryWriter.from_pretrained(model)
    served = partial(make_studio, writer, rows=rows)
    serve(served, make_access(), announce=announced.send, open_browser=False)


def _unchunked(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        pieces.append(body[:count])
        body = body[count + 2 :] if count else b""
    return b"".join(pieces)
