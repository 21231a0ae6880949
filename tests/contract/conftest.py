"""One Chromium for all browser tests: the system's own, driven by Playwright."""

import shutil
from collections.abc import Iterator

import pytest
from contract.reader import Reader

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """A reader of pages; browser tests are skipped where there is no Chromium or no Playwright.

    Its event loop runs as long as it lives, and no other may run then: it ends with the module.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright (pip install playwright)")
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs a Chromium (Debian: apt install chromium)")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        yield Reader(browser)
        browser.close()
