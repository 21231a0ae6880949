"""The code dictionary as a reader meets it: in a real browser, by mouse and by keyboard, light and dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from contract.headless import Browser, find_browser

from discodvt.report.pages import code_page

TIP = "document.getElementById('tip')"


def entry(code: int) -> dict[str, object]:
    return {
        "code": code,
        "share": 0.25,
        "grams": [{"text": f"<b>once</b> upon {code}", "count": 7}],
        "markers": [{"marker": "then", "count": 3, "share": 0.6}],
        "relations": [{"relation": "so_arg1_arg2", "count": 2, "share": 1.0}],
        "place": {"beginning": 0.7, "middle": 0.2, "end": 0.1, "mean": 0.3},
        "next": [{"code": 3 - code, "share": 0.5, "lift": 2.0}],
        "previous": [],
        "nearest": [{"code": 3 - code, "cosine": 0.5}],
        "examples": [{"id": "s1", "before": "It was so. ", "text": "Once <upon>", "after": " a time."}],
    }


STUDY = {
    "model": {"name": "toy & co", "tokens_per_code": 8},
    "split": "test",
    "stories": 1200,
    "usage": {
        "used": 4, "vocabulary": 5, "dead": [4], "perplexity": 3.5,
        "utilisation": {"mean": 0.62, "bins": [0.0] * 18 + [0.4, 0.6]},
    },
    "codes": [entry(code) for code in range(4)],
    "told": [
        {"id": f"s{n}", "prompt": f"fox {n}", "segments": [[n % 4, "Once <upon> a time "], [(n + 1) % 4, "was one."]]}
        for n in range(30)
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("codes") / "codes.html"
    path.write_text(code_page(STUDY), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_browser()
    if program is None:
        pytest.skip("needs a Chromium (Debian: apt install chromium)")
    with Browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def test_a_piece_explains_its_code_where_it_can_be_seen(browser: Browser, page: Path) -> None:
    browser.open(page, height=700)
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [page.resolve().as_uri()]
    for section in (1, 15, 30):
        browser.point_at(f"section:nth-of-type({section}) .piece")
        assert not browser.ask(f"{TIP}.hidden")
        code = (section - 1) % 4
        assert f"<b>once</b> upon {code} 7" in browser.ask(f"{TIP}.innerText")  # escaped, not obeyed
        assert browser.ask("document.querySelectorAll('.same').length") == len(
            [piece for story in STUDY["told"] for piece in story["segments"] if piece[0] == code]
        )
        at = browser.ask(f"{TIP}.getBoundingClientRect().toJSON()")
        assert at["left"] >= 0
        assert browser.ask(f"innerWidth >= {at['right']}")
        assert at["top"] >= 0
        assert browser.ask(f"innerHeight >= {at['bottom']}")
    browser.point_at("h1")
    assert browser.ask(f"{TIP}.hidden")


def test_the_keyboard_reaches_every_piece_and_its_entry(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.press("Tab")
    assert "upon 0" in browser.ask(f"{TIP}.textContent")
    browser.press("ArrowRight")
    assert "upon 1" in browser.ask(f"{TIP}.textContent")
    browser.press("Escape")
    assert browser.ask(f"{TIP}.hidden")
    browser.ask("document.activeElement.click()")
    assert browser.ask("document.querySelector('article:target').id") == "code-1"


def test_light_dark_and_narrow(browser: Browser, page: Path) -> None:
    grounds = []
    for dark in (False, True):
        browser.open(page, dark=dark, width=400)
        grounds.append(browser.ask("getComputedStyle(document.body).backgroundColor"))
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert grounds[0] != grounds[1]
