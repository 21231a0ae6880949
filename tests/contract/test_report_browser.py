"""The report as a reader meets it: in a real browser, nothing complains, everything is there, pointing at it tells."""

from pathlib import Path

import pytest
from contract.reader import Reader, fits_sideways, is_inside, style
from pipeline.toy_runs import write_runs

from discodvt.report.drawing import Drawing
from discodvt.report.report_stage import write_report


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Drawing, "pdf", lambda figure: b"")  # no page has them
        write_report(write_runs(folder / "runs"), folder / "out", examples=2)
    return folder / "out" / "report.html"


def test_the_page_loads_alone_and_every_table_and_figure_can_be_seen(reader: Reader, path: Path) -> None:
    page = reader.open(path)
    assert reader.complaints == []
    assert [url for url in reader.requests if not url.startswith("data:")] == [path.resolve().as_uri()]
    heights = "each => each.map(one => one.getBoundingClientRect().height)"
    tables, figures = (page.locator(name).evaluate_all(heights) for name in ("table", ".drawing svg"))
    assert len(tables) == 12
    assert len(figures) == 5
    assert min(tables + figures) > 50
    assert page.locator(".example section").count() == 2 * 4
    assert fits_sideways(page)


def test_pointing_at_things_says_what_they_are(reader: Reader, path: Path) -> None:
    page = reader.open(path)
    tip = page.locator("#tip")
    assert not tip.is_visible()
    for selector, told in (
        ("#figure-accuracy .mark", "human, concession: 40.0%, 95% interval 36.0 to 44.0"),
        ("#figure-relations .mark", "human: concession 10.00%"),
        ("#figure-utilisation .mark", "disco: 25.0% of the stories between 0.50 and 0.55"),
        ("#table-main tr.ours td", "B-1"),
        (".code", "code 0: 50.00% of all codes, beginning 70%"),
        (".example mark", "counted by rep-"),
    ):
        page.locator(selector).first.hover()
        assert told in tip.inner_text()
        assert is_inside(page, "#tip")
        page.locator("h2").first.hover()
        assert not tip.is_visible(), selector


def test_the_keyboard_reaches_the_same(reader: Reader, path: Path) -> None:
    page = reader.open(path)
    tip = page.locator("#tip")
    page.locator("#figure-relations .mark").first.focus()
    assert "concession" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "causal" in tip.inner_text()
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    page.keyboard.press("Tab")  # one stop a group: from the pies on to the bars
    assert page.evaluate("document.activeElement.closest('figure').id") == "figure-markers"


def test_light_and_dark_and_narrow(reader: Reader, path: Path) -> None:
    grounds = []
    page = reader.open(path, width=320)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        grounds.append(style(page, "body", "backgroundColor"))
        assert fits_sideways(page)  # tables scroll in their frames
        assert style(page, "#figure-main text", "fill") == style(page, "body", "color")
    assert grounds[0] != grounds[1]
