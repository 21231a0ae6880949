"""The page of stories holds them unchanged, needs no network, and explains its codes."""

import json
import re
from html import unescape

import pytest

from discodvt.errors import BadRequest
from discodvt.report.pages import read_meanings, story_page
from discodvt.writing.story import Story

STORY = "The <fox> ran & hid.\nThen it slept."
RECORD = Story(
    "1", 'A "fox" & a hat', STORY, (12, 7, 12), 0, "nano", "end", ((12, 0, 10), (7, 10, 21), (-1, 21, len(STORY)))
)


def stories_in(page: str) -> list[str]:
    found = re.findall(r'<p class="story" dir="auto">(.*?)</p>', page, flags=re.DOTALL)
    return [unescape(re.sub(r"<[^>]+>", "", text)) for text in found]


def test_the_page_holds_the_stories_unchanged_and_nothing_from_outside():
    plain = Story("2", "Without a plan", "No <plan>.", (), 0, "bart", "end")
    page = story_page([RECORD, plain])
    assert stories_in(page) == [STORY, "No <plan>."]
    assert not re.search(r'https?:|<script|<link(?! rel="icon" href="data:,")|@import|url\(', page)
    assert "<title>2 stories</title>" in page
    assert "<title>A &#34;fox&#34; &amp; a hat</title>" in story_page([RECORD])


def test_segments_and_plan_cells_can_be_reached_and_explain_themselves():
    page = story_page([RECORD], meanings={12: "“once upon” · then 31%"})
    assert page.count('data-tip="code 12: “once upon” · then 31%"') == 3  # one segment, two cells
    assert page.count('data-tip="code 7"') == 2
    for link in re.findall(r'href="#(\w+)"', page):
        assert f'id="{link}"' in page
    assert page.count('class="unreached"') == 1
    assert re.findall(r"<(?:a|span) (?!href|class|id)", page) == []
    assert all('tabindex="0"' in tag for tag in re.findall(r"<span [^>]*>", page))
    assert "prefers-color-scheme: dark" in page


def test_a_code_without_text_does_not_shift_the_others():
    silent = Story("1", "A fox", "It ran. End.", (5, 7, 7, 9), 0, "nano", "end", ((7, 0, 8), (9, 8, 12)))
    page = story_page([silent])
    cells = dict(re.findall(r'<a href="#(\w+)"[^>]*>(\d+)</a>', page))
    texts = dict(re.findall(r'<span id="(\w+)"[^>]*data-tip="code (\d+)"', page))
    assert cells == texts == {"s0c0": "7", "s0c1": "9"}
    assert re.findall(r'class="unreached"[^>]*>(\d+)<', page) == ["5", "7"]


def test_meanings_come_from_the_code_dictionary(tmp_path):
    assert read_meanings(tmp_path) == {}
    codes = [
        {
            "code": 12,
            "share": 0.1,
            "grams": [{"text": "once upon a time", "count": 9}],
            "markers": [{"marker": "then", "share": 0.31}, {"marker": "and", "share": 0.2}],
        },
        {"code": 7, "share": 0.2, "grams": [{"text": "he was very sad", "count": 4}], "markers": []},
        {"code": 8},
    ]
    (tmp_path / "codes.json").write_text(json.dumps({"codes": codes}))
    assert read_meanings(tmp_path) == {12: "“once upon a time” · then 31% · and 20%", 7: "“he was very sad”", 8: ""}
    (tmp_path / "codes.json").write_text("[]")
    with pytest.raises(BadRequest, match="code dictionary"):
        read_meanings(tmp_path)


def test_several_stories_to_one_prompt_can_be_told_apart_in_the_contents():
    other = Story("2", "Another", "It slept.", (), 0, "nano", "end")
    page = story_page([RECORD, RECORD, other, RECORD])
    entries = [unescape(entry) for entry in re.findall(r"<li><a href=[^>]*><bdi>(.*?)</bdi></a></li>", page)]
    assert entries == [f"{RECORD.prompt} (1 of 3)", f"{RECORD.prompt} (2 of 3)", "Another", f"{RECORD.prompt} (3 of 3)"]
    headings = [unescape(heading) for heading in re.findall(r"<h2[^>]*>(.*?)</h2>", page)]
    assert headings == entries
