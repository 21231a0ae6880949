"""The report as a reader meets it: in a real browser, nothing complains, everything is there, pointing at it tells."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.headless import Browser, find_browser
from pipeline.toy_runs import write_runs

from discodvt.report.report_stage import write_report

TIP = "document.getElementById('tip')"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    write_report(write_runs(folder / "runs"), folder / "out", examples=2)
    return folder / "out" / "report.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("needs a Chromium (Debian: apt install chromium)")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_the_page_loads_alone_and_nothing_complains(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]


def test_every_table_and_figure_can_be_seen(browser: Browser, page: Path) -> None:
    browser.open(page)
    heights = "[...document.querySelectorAll('%s')].map(each => each.getBoundingClientRect().height)"
    tables, figures = browser.ask(heights % "table"), browser.ask(heights % ".drawing svg")
    assert len(tables) == 12
    assert len(figures) == 5
    assert min(tables + figures) > 50
    assert browser.ask("document.querySelectorAll('.example section').length") == 2 * 4
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("selector", "told"),
    [
        ("#figure-accuracy .mark", "human, concession: 40.0%, 95% interval 36.0 to 44.0"),
        ("#figure-relations .mark", "human: concession 10.00%"),
        ("#figure-utilisation .mark", "disco: 25.0% of the stories between 0.50 and 0.55"),
        ("#table-main tr.ours td", "B-1"),
        (".code", "code 0: 50.00% of all codes, beginning 70%"),
        (".example mark", "counted by rep-"),
    ],
)
def test_pointing_at_things_says_what_they_are(browser: Browser, page: Path, selector: str, told: str) -> None:
    browser.open(page)
    assert browser.ask(f"{TIP}.hidden")
    browser.point_at(selector)
    assert not browser.ask(f"{TIP}.hidden")
    assert told in browser.ask(f"{TIP}.textContent")
    at = browser.ask(f"{TIP}.getBoundingClientRect().toJSON()")
    assert at["left"] >= 0 <= at["top"]
    assert browser.ask(f"innerWidth >= {at['right']} && innerHeight >= {at['bottom']}")
    browser.point_at("h2")
    assert browser.ask(f"{TIP}.hidden")


def test_the_keyboard_reaches_the_same(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.ask("document.querySelector('nav a:last-of-type').focus()")
    browser.ask("document.querySelector('#figure-relations .mark').focus()")
    assert "concession" in browser.ask(f"{TIP}.textContent")
    browser.press("ArrowRight")
    assert "causal" in browser.ask(f"{TIP}.textContent")
    browser.press("Escape")
    assert browser.ask(f"{TIP}.hidden")
    browser.press("Tab")  # one stop a group: from the pies on to the bars
    assert browser.ask("document.activeElement.closest('figure').id") == "figure-markers"


def test_light_and_dark_and_narrow(browser: Browser, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.open(page, dark=dark, width=400)
        grounds.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")  # tables scroll in their frames
        ink = "getComputedStyle(document.querySelector('#figure-main text')).fill"
        assert browser.ask(ink) == browser.ask("getComputedStyle(document.body).color")
    assert grounds[0] != grounds[1]
