"""The application: all routes around one writer, projects and their page, inside the shell of `web/`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from discodvt.studio import control_routes, native, openai, project_routes
from discodvt.studio.jobs import Jobs
from discodvt.studio.projects import Projects
from discodvt.studio.scribe import ROWS, Scribe
from discodvt.web.access import Access
from discodvt.web.application import add_files, in_shell, make_app
from discodvt.web.lane import Lane
from discodvt.web.shell import Shell
from discodvt.writing import StoryWriter

MODULES = (
    "api", "app", "candidates", "code-panel", "compare", "desk", "dialogs", "dom", "job", "keys", "plan", "spans",
    "story", "versions", "welcome", "words",
)  # fmt: skip
FILES = {"/": "pages/studio.html", "/studio.css": "pages/studio.css", "/favicon.svg": "pages/favicon.svg"} | {
    f"/{name}.js": f"pages/{name}.js" for name in MODULES
}


def make_studio(writer: StoryWriter, access: Access, *, projects: Projects | None = None, rows: int = ROWS) -> Shell:
    """The server of a writer; its thread starts and ends with it. Without `projects` there is no page."""
    scribe, jobs = Scribe(writer, rows=rows), Jobs()
    lane = Lane(lambda: scribe.written)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        scribe.start()
        yield
        scribe.close()

    app = make_app("DiscoDVT", openapi_url="/api/openapi.json", lifespan=lifespan)
    app.include_router(native.routes(scribe, jobs, lane))
    app.include_router(control_routes.routes(scribe, jobs))
    app.include_router(openai.routes(scribe, jobs))
    if projects is not None:
        app.include_router(project_routes.routes(scribe, jobs, projects))
        add_files(app, "discodvt.studio", FILES)
    return in_shell(app, access, lane=lane)
