"""A FastAPI application inside the shell: errors are JSON of one shape, pages come from a fixed table of names.

No path of a client ever names a file: `add_files` reads package data once and makes one route for each.
"""

import mimetypes
from collections.abc import Mapping
from hashlib import sha256
from importlib import resources
from typing import TYPE_CHECKING, Any

from discodvt.errors import BadRequest, DiscoError
from discodvt.web.access import Access, HttpError
from discodvt.web.lane import Lane
from discodvt.web.shell import MOST_BODY_BYTES, App, Shell, error_json, status_of

if TYPE_CHECKING:
    from fastapi import FastAPI
    from fastapi.responses import JSONResponse
    from starlette.requests import Request
    from starlette.responses import Response

HEAD = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
"""


def need_web() -> None:
    """Say what to install where the libraries of the extra are missing."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadRequest(f"{error.name} is missing; install it with pip install 'discodvt[studio]'") from None


def make_app(title: str, *, openapi_url: str | None = None, **settings: Any) -> "FastAPI":
    """An application without routes; `settings` are FastAPI's (lifespan, version)."""
    need_web()
    from fastapi import FastAPI
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    # /docs would load scripts from another site; a path with one slash more is another path.
    app = FastAPI(
        title=title, docs_url=None, redoc_url=None, openapi_url=openapi_url, redirect_slashes=False, **settings
    )
    app.add_exception_handler(HttpError, _answer_error)
    app.add_exception_handler(DiscoError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_routing)
    app.add_exception_handler(RequestValidationError, _answer_validation)
    app.add_exception_handler(Exception, _answer_unexpected)
    return app


def in_shell(
    app: App,
    access: Access,
    *,
    trusted_types: str = "'none'",
    most_body_bytes: int = MOST_BODY_BYTES,
    lane: Lane | None = None,
) -> Shell:
    """The application as it is served. `trusted_types` names the policies a page may make (lit-html)."""
    return Shell(app, access, trusted_types=trusted_types, most_body_bytes=most_body_bytes, lane=lane)


def add_files(app: "FastAPI", package: str, files: Mapping[str, str]) -> None:
    """Serve files of a package, each at the one path of the table: {"/judge.js": "pages/judge.js"}.

    All pages begin alike (`HEAD`); what their files hold comes behind it.
    """
    from starlette.requests import Request
    from starlette.responses import Response

    for path, name in files.items():
        content = (HEAD if name.endswith(".html") else b"") + resources.files(package).joinpath(name).read_bytes()
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        kind = "text/javascript" if kind == "application/javascript" else kind  # of the platform's own table
        etag = f'"{sha256(content).hexdigest()[:32]}"'

        def send(request: Request, content: bytes = content, kind: str = kind, etag: str = etag) -> Response:
            headers = {"etag": etag, "cache-control": "no-cache"}
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304, headers=headers)
            return Response(content, media_type=kind, headers=headers)

        app.add_route(path, send, methods=["GET"], include_in_schema=False)


def _json(error: Exception, headers: Mapping[str, str] | None = None) -> "JSONResponse":
    from fastapi.responses import JSONResponse

    return JSONResponse(error_json(error), status_of(error), headers=dict(headers or {}))


async def _answer_error(request: "Request", error: Exception) -> "Response":
    return _json(error, getattr(error, "headers", None))


async def _answer_routing(request: "Request", error: Exception) -> "Response":
    from starlette.exceptions import HTTPException

    assert isinstance(error, HTTPException)
    return _json(HttpError(error.status_code, error.detail), error.headers)


async def _answer_validation(request: "Request", error: Exception) -> "Response":
    """Name the first thing that is wrong, never repeat what was sent."""
    from fastapi.exceptions import RequestValidationError

    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(map(str, _field(first, error.body)))
    return _json(HttpError(422, f"{where or 'body'}: {first['msg']}", param=where or None))


def _field(error: Mapping[str, Any], body: Any) -> list[str | int]:
    """Where in a request an error is; of a place in its body without the names of types that were tried there."""
    source, *place = error["loc"]
    if source != "body":
        return place if source in ("query", "path") else [source, *place]
    found: list[str | int] = []
    for number, part in enumerate(place, 1):
        try:
            body = body[part]
        except (KeyError, IndexError, TypeError):
            if error["type"] != "missing" or number < len(place):
                continue
        found.append(part)
    return found


async def _answer_unexpected(request: "Request", error: Exception) -> "Response":
    """A fault of ours; uvicorn prints its trace."""
    return _json(RuntimeError("an error in the server; its terminal has the details"))
