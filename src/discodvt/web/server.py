"""Running a server: one socket, uvicorn with h11, clients that are too slow are dropped, the page opened in a browser.

uvicorn itself waits for ever for the head of a request and for a client to read. Here a head has `HEAD_SECONDS`; a
client that does not take `SEND_BYTES`, or what is left, in `SEND_SECONDS` is dropped, and the application hears that it
left. As much is kept for it by the kernel: one that never reads costs a send or two. Bodies have their time in
`shell.py`. Where the application has a lane, requests that only read wait in it, before anything is parsed.
"""

import errno
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discodvt.errors import BadRequest
from discodvt.web.access import MOST_HEADER_BYTES, Access, new_token
from discodvt.web.application import need_web
from discodvt.web.lane import Lane
from discodvt.web.shell import Shell

if TYPE_CHECKING:
    from uvicorn import Server

TOKEN = "token"  # the file it is kept in
HEAD_SECONDS = 10.0
SEND_SECONDS = 30.0
MOST_CONNECTIONS = 256
SHUTDOWN_SECONDS = 3
READ_COST = 0.1  # CPU seconds of writing for which a request that only reads is answered
SEND_BYTES = 32 * 1024  # Linux keeps twice that for a connection; unasked it keeps megabytes


def serve(
    make: Callable[[Access], Shell],
    access: Access,
    *,
    announce: Callable[[str], None],
    open_browser: bool = True,
    path: str = "/",
) -> None:
    """Serve until Ctrl-C. `make` gets the access with the port that was taken; `announce` the address to open."""
    need_web()
    listening = bind(access)
    access = replace(access, port=listening.getsockname()[1])
    try:
        server = make_server(make(access))
        address = address_of(access, path)
        announce(address)
        if open_browser and _has_display():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        with suppress(KeyboardInterrupt):  # the usual end of a server
            server.run(sockets=[listening])
    finally:
        listening.close()


def address_of(access: Access, path: str = "/") -> str:
    """What to open in a browser, with the token where one is asked for."""
    host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(access.host, access.host)
    name = f"[{host}]" if ":" in host else host
    query = f"?token={access.token}" if access.token is not None else ""
    return f"http://{name}:{access.port}{path}{query}"


def kept_token(directory: Path) -> str:
    """The token of a server's data directory, made at its first start: links and programs stay good after a restart."""
    path = directory / TOKEN
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        if found := path.read_text(encoding="ascii").strip() if path.exists() else "":
            return found
        token = new_token()
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(token)
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: no token can be kept there ({error}); give another directory") from None
    return token


def bind(access: Access) -> socket.socket:
    """A listening socket; a port that is taken or an address that is not ours is a wrong request."""
    try:
        kind, _, _, _, place = socket.getaddrinfo(
            access.host or "0.0.0.0", access.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError, OverflowError) as error:
        raise BadRequest(f"`host` {access.host}: {error}; give an address of this machine", "host") from None
    listening = socket.socket(kind, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)  # of its connections too
        listening.bind(place)
        listening.listen(MOST_CONNECTIONS)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            reason = f"`port` {access.port}: already in use on {access.host}; stop that server or give another `port`"
            raise BadRequest(reason, "port") from None
        if error.errno == errno.EACCES:
            raise BadRequest(f"`port` {access.port}: not allowed; give one above 1023 as `port`", "port") from None
        raise BadRequest(f"`host` {access.host}: {error.strerror}; give an address of this machine", "host") from None
    return listening


def make_server(app: Shell, *, head_seconds: float = HEAD_SECONDS, send_seconds: float = SEND_SECONDS) -> "Server":
    """A uvicorn server that logs no requests and drops slow clients."""
    from uvicorn import Config, Server

    config = Config(
        app,
        http=patient_protocol(head_seconds, send_seconds, app.lane),
        ws="none",
        loop="asyncio",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    return Server(config)


def patient_protocol(head_seconds: float, send_seconds: float, lane: Lane | None) -> type[Any]:
    """uvicorn's HTTP protocol with a limit to its patience, and a lane for those who can wait."""
    import asyncio

    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PatientProtocol(H11Protocol):
        head_timer: asyncio.TimerHandle | None = None
        send_timer: asyncio.TimerHandle | None = None
        waits = False  # in the lane

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(high=0)  # any byte that waits is noticed
            self.head_timer = self.loop.call_later(head_seconds, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.waits or self.conn.their_state is not h11.IDLE:
                self._stop_head_timer()
            elif self.head_timer is None:  # the head of the next request on this connection has begun
                self.head_timer = self.loop.call_later(head_seconds, self.transport.abort)

        def handle_events(self) -> None:
            come, _ = self.conn.trailing_data
            if self.waits:
                if len(come) > MOST_HEADER_BYTES:  # more than it waits with
                    self.flow.pause_reading()
                return
            if lane is not None and self.conn.their_state is h11.IDLE:
                head, whole, _ = come.partition(b"\r\n\r\n")
                if whole and head.startswith(b"GET "):
                    self.waits = True
                    self._unset_keepalive_if_required()
                    path = head.split(b" ", 2)[1].partition(b"?")[0]
                    lane.add(path.decode("latin-1"), self._answer_reading, first=True)
                    return
            super().handle_events()

        def _answer_reading(self) -> float:
            self.waits = False
            if self.transport.is_closing():
                return 0.0
            self.flow.resume_reading()
            super().handle_events()
            return READ_COST

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_head_timer()
            self._stop_send_timer()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            super().pause_writing()
            if self.send_timer is None:
                self._time_sending()

        def _time_sending(self) -> None:
            waiting = self.transport.get_write_buffer_size()
            self.send_timer = self.loop.call_later(send_seconds, self._look_at_sending, waiting)

        def _look_at_sending(self, waiting: int) -> None:
            """A long answer to a slow client may take its time as long as it is read."""
            if waiting - self.transport.get_write_buffer_size() >= SEND_BYTES:
                self._time_sending()
            else:
                self.transport.abort()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_send_timer()

        def _stop_head_timer(self) -> None:
            if self.head_timer is not None:
                self.head_timer.cancel()
                self.head_timer = None

        def _stop_send_timer(self) -> None:
            if self.send_timer is not None:
                self.send_timer.cancel()
                self.send_timer = None

    return PatientProtocol


def _has_display() -> bool:
    """Whether a browser would have a window; without one `webbrowser` may start one inside the terminal."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
