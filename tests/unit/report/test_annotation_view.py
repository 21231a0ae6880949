"""The pictures of an annotated story say what the annotation says."""

import re
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from discodvt.discourse import Annotator
from discodvt.report.annotation_view import html_page, terminal_view
from discodvt.report.relation_chart import marker_shares, write_relation_chart

STORY = "The <fox> ran because he was late.\n\nThen he slept & dreamt."


def test_the_page_holds_the_story_unchanged(annotator: Annotator) -> None:
    page = html_page(STORY, annotator.annotate(STORY), title="A & B")
    main = page[page.index("<main>") + 6 : page.index("</main>")]
    assert unescape(re.sub(r"<[^>]+>", "", main)) == STORY
    assert "<title>A &amp; B</title>" in page
    assert 'class="edu causal"' in page
    assert 'class="edu temporal"' in page
    assert not re.search(r"https?://", page)


def test_the_terminal_view_has_a_line_an_edu(annotator: Annotator) -> None:
    console = Console(width=100, record=True, file=StringIO())
    console.print(terminal_view(STORY, annotator.annotate(STORY)))
    text = console.export_text()
    assert "because_arg1_arg2" in text
    assert "then_arg1_arg2" in text
    assert "3 EDUs, 2 of 2 neighbours linked by a marker" in text


def test_shares_leave_unknown_out() -> None:
    shares = marker_shares({"and_arg1_arg2": 2, "because_arg1_arg2": 1, "because_arg2_arg1": 1, "unknown": 90})
    assert shares["and"] == shares["because"] == 0.5
    assert sum(shares.values()) == pytest.approx(1)
    assert marker_shares({"unknown": 3}) == {}


def test_the_chart_is_a_picture_and_always_the_same(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        write_relation_chart({"and_arg1_arg2": 2, "so_arg1_arg2": 1}, tmp_path / name, title="Relations")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
