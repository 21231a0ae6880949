"""`discodvt studio`: a page to write with a plan in hand, and a writer behind an HTTP API, also OpenAI-compatible."""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli.console import err


def studio(
    model: Annotated[
        str | None, typer.Option(metavar="DIR|HUB_ID", help="A checkpoint; default: the storyteller that ships.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any that is free.")] = 8321,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where projects are kept; default: the user's data directory.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    token: Annotated[
        bool,
        typer.Option("--token/--no-token", help="Ask for the token of the printed address; always, but on loopback."),
    ] = True,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further name this server has; repeat.")] = None,
    cors_origin: Annotated[list[str] | None, typer.Option(help="A web page that may ask; repeat.")] = None,
    rows: Annotated[int, typer.Option(min=1, max=256, help="Stories written at a time.")] = 64,
    int8: Annotated[bool, typer.Option("--int8", help="Quantize large weights to 8 bits (CPU).")] = False,
) -> None:
    """Write with a plan in hand: a page on this machine, with an HTTP API (/api, and OpenAI-compatible /v1)."""
    from discodvt.studio.database import data_directory
    from discodvt.web.access import make_access
    from discodvt.web.application import need_web
    from discodvt.web.server import kept_token, serve

    need_web()
    data = data or data_directory()
    kept = kept_token(data) if token else None
    access = make_access(host, port, allow_hosts=allow_host or (), cors_origins=cors_origin or (), token=kept)

    from discodvt.studio.projects import Projects
    from discodvt.studio.server import make_studio
    from discodvt.writing import StoryWriter

    with closing(Projects(data)) as projects:
        writer = StoryWriter.from_pretrained(model, int8=int8)
        serve(
            lambda found: make_studio(writer, found, projects=projects, rows=rows),
            access,
            announce=lambda address: err.print(
                f"{writer.name} writes at {address} (Ctrl-C ends it)", highlight=False, soft_wrap=True
            ),
            open_browser=browser,
        )
