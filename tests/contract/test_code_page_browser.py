"""The code dictionary as a reader meets it: in a real browser, by mouse and by keyboard, light and dark."""

from pathlib import Path

import pytest
from contract.reader import Reader, fits_sideways, is_inside, style

from discodvt.report.pages import code_page


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
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("codes") / "codes.html"
    page.write_text(code_page(STUDY), encoding="utf-8")
    return page


def test_a_piece_explains_its_code_where_it_can_be_seen(reader: Reader, path: Path) -> None:
    page = reader.open(path, height=700)
    tip = page.locator("#tip")
    assert reader.complaints == []
    assert [url for url in reader.requests if not url.startswith("data:")] == [path.resolve().as_uri()]
    for section in (1, 15, 30):
        page.hover(f"section:nth-of-type({section}) .piece")
        assert tip.is_visible()
        code = (section - 1) % 4
        assert f"<b>once</b> upon {code} 7" in tip.inner_text()  # escaped, not obeyed
        assert page.locator(".same").count() == len(
            [piece for story in STUDY["told"] for piece in story["segments"] if piece[0] == code]
        )
        assert is_inside(page, "#tip")
    page.hover("h1")
    assert not tip.is_visible()


def test_the_keyboard_reaches_every_piece_and_its_entry(reader: Reader, path: Path) -> None:
    page = reader.open(path)
    tip = page.locator("#tip")
    page.keyboard.press("Tab")
    assert "upon 0" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "upon 1" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.keyboard.press("Enter")
    assert page.locator("article:target").get_attribute("id") == "code-1"


def test_light_dark_and_narrow(reader: Reader, path: Path) -> None:
    grounds = []
    page = reader.open(path, width=320)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(style(page, "body", "backgroundColor"))
        assert fits_sideways(page)
    assert grounds[0] != grounds[1]
