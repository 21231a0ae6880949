"""Stories with their plans, and an annotated story, in a real browser: tips, narrow screens, text that would turn."""

from pathlib import Path

import pytest
from contract.reader import Reader, fits_sideways, style

from discodvt.discourse import Annotator
from discodvt.report.pages import annotation_page, story_page
from discodvt.writing.story import Segment, Story

WORDS = "The fox ran because it rained. \u202eThen it slept, and so did the owl. שלום " * 4
PLAN = tuple(range(30))
TEXT = WORDS + "x" * 200  # a word no line holds
SEGMENTS = (*(Segment(code, 10 * code, 10 * code + 10) for code in PLAN[:-1]), Segment(29, 290, len(TEXT)))
TIP = "(each) => { const tip = getComputedStyle(each, '::after'); return [tip.content, tip.position]; }"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, annotator: Annotator) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stories")
    story = Story("1", "A \u202efox", TEXT, PLAN, 0, "nano", "end", SEGMENTS)
    held = {
        "stories": story_page([story] * 3, meanings={0: "“once upon a time” " * 5}),
        "annotation": annotation_page(TEXT, annotator.annotate(TEXT), title="A \u202efox"),
    }
    for name, page in held.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in held}


@pytest.mark.parametrize("kind", ["stories", "annotation"])
def test_pages_of_stories_are_read_in_any_light_and_width(reader: Reader, pages: dict[str, Path], kind: str) -> None:
    grounds = []
    page = reader.open(pages[kind])
    for scheme, width in (("light", 1200), ("dark", 320)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        grounds.append(style(page, "body", "backgroundColor"))
        assert fits_sideways(page)
        piece = page.locator(".story [data-tip]").first
        piece.focus()
        content, position = piece.evaluate(TIP)
        assert content != "none"
        assert position == ("fixed" if width == 320 else "absolute")
        assert fits_sideways(page)
    assert grounds[0] != grounds[1]
    assert reader.complaints == []
    assert [url for url in reader.requests if not url.startswith("data:")] == [pages[kind].resolve().as_uri()]


def test_text_never_turns_round(reader: Reader, pages: dict[str, Path]) -> None:
    """The word after an override stands where it would stand without: letters go on to the right."""
    page = reader.open(pages["stories"])
    places = page.evaluate("""() => {
      const text = document.createTreeWalker(document.querySelector('.story'), NodeFilter.SHOW_TEXT);
      const found = [];
      while (text.nextNode()) {
        const start = text.currentNode.data.indexOf('Then');
        if (start < 0) continue;
        for (const letter of [0, 1, 2, 3]) {
          const range = document.createRange();
          range.setStart(text.currentNode, start + letter);
          range.setEnd(text.currentNode, start + letter + 1);
          found.push(range.getBoundingClientRect().left);
        }
        break;
      }
      return found;
    }""")
    assert len(places) == 4
    assert places == sorted(places)
