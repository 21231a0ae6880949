"""The pictures of an annotated story say what the annotation says."""

import re
from collections.abc import Iterator
from html import unescape
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from discodvt.discourse import CATEGORIES, Annotation, Annotator, Mention
from discodvt.report.charts import marker_shares, write_relation_chart
from discodvt.report.pages import annotation_page
from discodvt.report.terminal import AnnotationView

STORY = "The <fox> ran because he was late.\n\nThen he slept & dreamt."


def test_the_page_holds_the_story_unchanged(annotator: Annotator) -> None:
    page = annotation_page(STORY, annotator.annotate(STORY), title="A & B")
    main = re.search(r"<main[^>]*>(.*)</main>", page, flags=re.DOTALL)[1]
    assert unescape(re.sub(r"<[^>]+>", "", main)) == STORY
    assert "<title>A &amp; B</title>" in page
    assert 'class="edu causal"' in page
    assert 'class="edu temporal"' in page
    assert not re.search(r"https?://", page)


def shown(text: str, annotation: Annotation, *, width: int = 100) -> str:
    """What the command prints, without its colours."""
    console = Console(width=width, file=StringIO(), soft_wrap=True)
    console.print(AnnotationView(text, annotation))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_the_terminal_view_has_a_line_an_edu(annotator: Annotator) -> None:
    text = shown(STORY, annotator.annotate(STORY))
    assert "because_arg1_arg2" in text
    assert "then_arg1_arg2" in text
    assert "3 EDUs, 2 of 2 neighbours linked by a marker" in text


def test_control_characters_are_shown_and_the_marks_stay_in_place(annotator: Annotator) -> None:
    text = "The \x1b[31mfox\x07\r ran\r\nhome \x9b because he was late."
    annotation = annotator.annotate(text)
    assert [text[mention.start : mention.end] for mention in annotation.mentions] == ["because"]
    plain = shown(text, annotation)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", plain)
    assert "The ␛[31mfox␇␍ ran \n" in plain
    console = Console(width=100, file=StringIO(), soft_wrap=True)
    underlined = [
        part.text for part in console.render(AnnotationView(text, annotation)) if part.style and part.style.underline
    ]
    assert underlined == ["because"]


@pytest.mark.parametrize("width", [40, 80, 130])
def test_no_line_is_wider_than_the_terminal(annotator: Annotator, width: int) -> None:
    lines = shown(STORY, annotator.annotate(STORY), width=width).splitlines()
    assert max(map(len, lines)) <= width
    legend = lines[: lines.index("")]
    assert len(legend) == {40: 4, 80: 2, 130: 1}[width]
    assert re.findall(r"■ (\w+)", " ".join(legend)) == list(CATEGORIES)


def test_the_count_of_one_is_singular(annotator: Annotator) -> None:
    assert "1 EDU, 0 of 0 neighbours" in shown("He ran.", annotator.annotate("He ran."))


def test_a_book_is_shown_in_time_that_grows_with_its_length() -> None:
    class Counted(list[Mention]):
        readings = 0

        def __iter__(self) -> Iterator[Mention]:
            self.readings += 1
            return super().__iter__()

    mentions = Counted(Mention("and", at, at + 3, (at, at + 3), (at, at + 3), "inter") for at in range(0, 400, 4))
    annotation = Annotation([(at, at + 4) for at in range(0, 400, 4)], ["unknown"] * 99, mentions)
    shown("and " * 100, annotation)
    annotation_page("and " * 100, annotation, title="x")
    assert mentions.readings == 2  # once a view, not once an EDU


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
