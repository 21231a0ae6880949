"""Take docs/studio.png: the studio with the model that ships, a code locked, a wish for `because`, three candidates.

usage: python docs/make_studio.py [--look DIR]

Needs Chromium and the extra `dev`. With --look nothing of docs/ is written, but the steps on the way there in light and
dark, 1200 and 320 pixels wide: to be looked at when the page was changed.
"""

import shutil
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, sync_playwright

PROMPT, PLACE = "The robot who was afraid of the rain", 3
PICTURE = Path(__file__).parent / "studio.png"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def show(page: Page, taken: Callable[[str], None]) -> None:
    """What a newcomer does first."""
    page.locator("body[data-ready]").wait_for()
    taken("1-welcome")
    page.select_option("#length", "160")
    page.fill("#prompt", PROMPT)
    page.keyboard.press("Enter")
    _done(page)
    taken("2-written")
    page.click("#plan li[data-place='1'] .lock")
    page.locator("#plan .lock[aria-pressed=true]").wait_for()
    page.select_option("#candidates", "3")
    page.click(f"#plan li[data-place='{PLACE}'] .code")
    page.locator(".other").first.wait_for()
    taken("3-code")
    page.click(".wish button")
    _done(page)
    page.locator("#cards article").nth(2).wait_for()
    page.locator(".other").first.wait_for()
    page.mouse.move(0, 0)
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    page.wait_for_timeout(500)
    taken("4-wish")


def _done(page: Page) -> None:
    page.locator("#stop:not([hidden])").wait_for()
    page.locator("#write:not([hidden])").wait_for()
    page.locator("#status").evaluate("each => { each.textContent = ''; }")


def main() -> None:
    parser = ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--look", type=Path)
    look = parser.parse_args().look
    with TemporaryDirectory() as data, sync_playwright() as playwright:
        command = [sys.executable, "-m", "discodvt", "studio", "--data", data, "--port", "0", "--no-browser"]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert server.stderr is not None
            address = next(word for word in server.stderr.readline().split() if word.startswith("http"))
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900}, locale="en-US", timezone_id="UTC")
            page.set_default_timeout(120_000)
            page.goto(address)

            def taken(name: str) -> None:
                for scheme, width in [(s, w) for s in ("light", "dark") for w in (1200, 320)] if look else []:
                    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                    page.set_viewport_size({"width": width, "height": 900})
                    page.wait_for_timeout(300)  # until it is painted
                    page.screenshot(path=f"{look}/{name}-{scheme}-{width}.png", full_page=True)

            show(page, taken)
            if not look:
                page.screenshot(path=PICTURE, full_page=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
