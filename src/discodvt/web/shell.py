"""The ASGI middleware around an application: checks a request, reads its body whole, adds the security headers.

Nothing of a refused request reaches the application. A body is counted while it arrives, so that one without a length
is limited too, and is read before a route is looked for: half a body starts no work. Pure ASGI, so that a client that
leaves is noticed.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from discodvt.errors import BadRequest
from discodvt.web.access import HEALTH, Access, HttpError, tokens_in
from discodvt.web.lane import Lane
from discodvt.web.strict_json import parse_json

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY_BYTES = 256 * 1024
MOST_DISCARDED_BYTES = 16 * 1024 * 1024  # of a body that is too large, read so that its sender hears why
BODY_SECONDS = 10.0
COOKIE_SECONDS = 30 * 24 * 3600
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
}
PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PUT, DELETE",
    "access-control-allow-headers": "authorization, content-type, if-match, last-event-id",
    "access-control-max-age": "600",
}
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "method_not_allowed",
    408: "timeout_error",
    409: "conflict_error",
    412: "conflict_error",
    413: "request_too_large",
    415: "unsupported_media_type",
    421: "misdirected_request",
    429: "overloaded_error",
    431: "headers_too_large",
    503: "overloaded_error",
}


class Shell:
    """Answers what `access` refuses, and passes the rest on to `app`."""

    def __init__(
        self,
        app: App,
        access: Access,
        *,
        trusted_types: str = "'none'",
        most_body_bytes: int = MOST_BODY_BYTES,
        body_seconds: float = BODY_SECONDS,
        lane: Lane | None = None,
    ) -> None:
        self.app = app
        self.access = access
        self.most_body_bytes = most_body_bytes
        self.body_seconds = body_seconds
        self.lane = lane  # where requests that only read wait
        policy = POLICY | {"trusted-types": trusted_types}
        self.headers = {
            "content-security-policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cache-control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"{scope['type']}: not served")
        guarded = self._guarded_send(scope, send)
        try:
            self.access.check(scope["method"], scope["path"], scope["query_string"], scope["headers"])
            if self.access.is_preflight(scope["method"], scope["headers"]):
                await answer(guarded, 200, {}, PREFLIGHT)
                return
            if scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"):
                await answer(guarded, 200, {"status": "ok"})
                return
            body = await self._body(scope, receive)
        except HttpError as error:
            # The rest of its body is not read: the connection cannot be used again.
            await answer(guarded, error.status, error_json(error), error.headers | {"connection": "close"})
            return
        if body is not None:
            await self.app(scope, _replay(body, receive), guarded)

    def _guarded_send(self, scope: Scope, send: Send) -> Send:
        """Add the security headers, and the cookie where the address had the token; what a route sets itself stays."""
        added = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        if self.access.cors_origins:
            added += [(b"vary", b"Origin")]
        if origin := self.access.allowed_origin(scope["headers"]):
            added += [(b"access-control-allow-origin", origin.encode())]
        if self.access.token is not None and self.access.token in tokens_in(scope["query_string"]):
            cookie = f"{self.access.cookie}={self.access.token}; Path=/; HttpOnly; SameSite=Strict"
            cookie += f"; Max-Age={COOKIE_SECONDS}"
            added += [(b"set-cookie", cookie.encode())]

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                message = {**message, "headers": own + [(name, value) for name, value in added if name not in names]}
            await send(message)
            if message.get("more_body"):
                await asyncio.sleep(0)  # a stream whose client left would else never let anyone tell it

        return guarded

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """The whole body; None where its sender left."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        if b"content-length" not in headers and b"transfer-encoding" not in headers:
            return b""
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > MOST_DISCARDED_BYTES:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.body_seconds):
                body = await self._read(receive)
        except TimeoutError:
            raise HttpError(408, f"body: not sent within {self.body_seconds:g} seconds") from None
        if body and scope["method"] not in ("GET", "HEAD", "OPTIONS"):
            try:
                parse_json(body)
            except (ValueError, RecursionError) as error:
                raise HttpError(400, f"body: not the JSON expected ({error})") from None
        return body

    async def _read(self, receive: Receive) -> bytes | None:
        kept, size = bytearray(), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            piece = message.get("body", b"")
            size += len(piece)
            if size <= self.most_body_bytes:
                kept += piece
            if size > MOST_DISCARDED_BYTES:
                raise self._too_large()
            if not message.get("more_body", False):
                break
        if size > self.most_body_bytes:
            raise self._too_large()
        return bytes(kept)

    def _too_large(self) -> HttpError:
        return HttpError(413, f"body: at most {self.most_body_bytes} bytes")


def error_json(error: Exception) -> dict[str, Any]:
    """An error as every answer has it, the shape that OpenAI's clients know."""
    status = status_of(error)
    kind = KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    param = getattr(error, "param", None) or next(iter(getattr(error, "parameters", ())), None)
    return {"error": {"message": str(error), "type": kind, "param": param, "code": status}}


def status_of(error: Exception) -> int:
    """The status of an error: a wrong request is 400, work that failed is 500."""
    if isinstance(error, HttpError):
        return error.status
    return 400 if isinstance(error, BadRequest) else 500


async def answer(send: Send, status: int, value: Any, headers: Mapping[str, str] = {}) -> None:
    """Send JSON."""
    body = json.dumps(value, ensure_ascii=False).encode()
    head = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    pairs = [(name.encode(), text.encode()) for name, text in head.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _replay(body: bytes, receive: Receive) -> Receive:
    """A body that was read, given once more; then what the server says (that the client left)."""
    waiting = True

    async def replayed() -> Message:
        nonlocal waiting
        if waiting:
            waiting = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return replayed
