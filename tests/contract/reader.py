"""A page as a reader meets it in a real browser."""

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

PATIENCE = 120_000  # milliseconds, on a machine with much else to do


class Reader:
    """Opens pages; `complaints` are errors and warnings of the last one, `requests` what it asked to load."""

    def __init__(self, browser: "Browser") -> None:
        self._browser = browser
        self._page: Page | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def open(self, path: Path | str, *, width: int = 1200, height: int = 900) -> "Page":
        """Load a page, a file or an address; the one before is closed."""
        if self._page is not None:
            self._page.close()
        self.complaints, self.requests = [], []
        size = {"width": width, "height": height}
        self._page = self._browser.new_page(viewport=size, reduced_motion="reduce")  # type: ignore[arg-type]  # no blinking
        self._page.set_default_timeout(PATIENCE)
        self._page.on("console", self._hear)
        self._page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self._page.on("request", lambda request: self.requests.append(request.url))
        self._page.goto(path if isinstance(path, str) else path.resolve().as_uri())
        return self._page

    def _hear(self, message: "ConsoleMessage") -> None:
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(message.text)


def serious_faults(page: "Page") -> list[str]:
    """What axe-core finds wrong with a page for people who cannot see or point, serious or worse."""
    if page.evaluate("!window.axe"):
        script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
        page.evaluate(f"() => {{ {script} }}")  # as the debugger does it, which no policy of the page forbids
    found = page.evaluate("axe.run({resultTypes: ['violations']}).then(found => found.violations)")  # not all else too
    return [
        f"{each['id']}: {node['html']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def is_inside(page: "Page", selector: str) -> bool:
    """Whether an element stands wholly inside the window."""
    script = """name => {
      const at = document.querySelector(name).getBoundingClientRect();
      return at.left >= 0 && at.top >= 0 && at.right <= innerWidth && at.bottom <= innerHeight;
    }"""
    return bool(page.evaluate(script, selector))


def fits_sideways(page: "Page") -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def style(page: "Page", selector: str, name: str) -> Any:
    """A computed style of the first element that matches."""
    return page.locator(selector).first.evaluate("(each, name) => getComputedStyle(each)[name]", name)


def check_light_and_dark_wide_and_narrow(page: "Page") -> None:
    for dark, width in ((False, 320), (True, 320), (True, 1200), (False, 1200)):
        page.emulate_media(color_scheme="dark" if dark else "light")
        page.set_viewport_size({"width": width, "height": 900})
        assert fits_sideways(page)
        assert serious_faults(page) == []
        assert (style(page, "body", "backgroundColor") == "rgb(22, 24, 28)") is dark
