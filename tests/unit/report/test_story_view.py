"""A story with its plan in the terminal: every code beside its text, with colours and without."""

import re
from io import StringIO

import pytest
from rich.console import Console

from discodvt.report.colors import tint
from discodvt.report.escaping import printable
from discodvt.report.terminal import LivePlan, LiveText, PlanView, heading, plan_rows
from discodvt.writing.story import Story

STORY = "The [red] fox slept, and then it woke.\n\nThe end."
PLAN = (12, 7, 201, 7, 9)


def record(*ends: int, story: str = STORY, plan: tuple[int, ...] = PLAN, finish: str = "end") -> Story:
    starts = (0, *ends[:-1])
    codes = (*plan, *[-1] * len(ends))
    segments = tuple((code, start, end) for code, start, end in zip(codes, starts, ends, strict=False))
    return Story("1", "A fox", story, plan, 0, "nano", finish, segments)


def shown(story: Story, *, width: int = 80, colours: bool = False) -> str:
    file = StringIO()
    console = Console(width=width, file=file, force_terminal=True, color_system="truecolor", no_color=not colours)
    console.print(PlanView(story), soft_wrap=False)
    return file.getvalue()


def test_without_colours_each_code_stands_in_brackets_before_its_words():
    text = shown(record(19, 29, 41, len(STORY)))
    assert "\n[12] The [red] fox slept, [7] and then [201] it woke.\n\nThe [7] end.\n" in text
    assert "5 codes, 4 reached · 10 words · ended by itself · seed 0" in text


def test_words_stay_whole_and_no_text_is_lost():
    inside = record(6, 16, 27, len(STORY))  # in "[red]", "slept", "then"
    rows = list(plan_rows(STORY, inside.segments))
    assert rows == [(12, "The [red]"), (7, " fox slept,"), (201, " and then"), (7, " it woke.\n\nThe end.")]
    tiny = record(5, 6, len(STORY))  # a code that governs one letter keeps it
    assert [piece for _, piece in plan_rows(STORY, tiny.segments)] == [
        "The [",
        "red]",
        " fox slept, and then it woke.\n\nThe end.",
    ]


def test_text_beyond_the_plan_has_no_code():
    rows = list(plan_rows(STORY, record(20, len(STORY), plan=(12,)).segments))
    assert [code for code, _ in rows] == [12, None]


def test_a_story_without_a_plan_is_shown_whole():
    text = shown(Story("1", "A fox", STORY, (), 4, "bart", "length"))
    assert "\nThe [red] fox slept, and then it woke.\n\nThe end.\n" in text
    assert "10 words · cut at the length limit · seed 4" in text


def test_lines_break_between_words_and_keep_a_number_with_its_word():
    lines = shown(record(19, 29, 41, len(STORY)), width=31).splitlines()
    assert lines[2:6] == ["[12] The [red] fox slept,", "[7] and then [201] it woke.", "", "The [7] end."]
    assert shown(record(19, len(STORY)), width=30).splitlines()[2] == "[12] The [red] fox slept,"  # not "[7]" alone
    wide = shown(record(60, story="z" * 60, plan=(12,)), width=31).splitlines()[2:-2]
    assert max(map(len, wide)) <= 31
    assert "".join(wide).count("z") == 60


def test_a_code_has_one_colour_everywhere():
    text = shown(record(19, 29, 41, len(STORY)), colours=True)
    red, green, blue = bytes.fromhex(tint(7)[1:])
    painted = re.findall(rf"48;2;{red};{green};{blue}m([^\x1b]*)", text)
    assert "".join(painted).split() == ["and", "then", "end."]
    assert "[7]" not in text
    assert len({tint(code) for code in range(256)}) > 200


def test_live_text_breaks_between_words_and_changes_nothing_else():
    story = "Once upon a time there was a fox.\n\nIt slept: " + "z" * 30 + " and woke."
    for size in (1, 3, 1000):
        file = StringIO()
        text = LiveText(Console(width=20, file=file))
        for start in range(0, len(story), size):
            text.write(story[start : start + size])
        text.end()
        assert file.getvalue().split() == story.split()
        assert all(len(line.rstrip()) <= 20 or "z" in line for line in file.getvalue().splitlines())
        assert "fox.\n\nIt" in file.getvalue()


@pytest.mark.parametrize("colours", [False, True])
def test_a_plan_shown_while_written_comes_early_and_ends_as_the_whole_view(colours):
    story = record(6, 16, 27, 41, len(STORY))  # codes end inside words
    file = StringIO()
    console = Console(width=31, file=file, force_terminal=True, color_system="truecolor", no_color=not colours)
    live = LivePlan(console, story.prompt)
    printed = []
    for length in range(1, len(STORY)):
        segments = [(code, start, min(end, length)) for code, start, end in story.segments if start < length]
        live.grow(STORY[:length], segments)
        printed.append(file.getvalue())
    live.end(story)
    assert file.getvalue() == shown(story, width=31, colours=colours)
    assert "slept" in printed[42]  # its line is full
    assert "woke" not in printed[42]


def test_a_story_without_a_plan_ends_as_the_whole_view_too():
    story = Story("1", "A fox", STORY, (), 4, "bart", "length")
    file = StringIO()
    live = LivePlan(Console(width=80, file=file, force_terminal=True, no_color=True), story.prompt)
    live.grow(STORY[:9], ())
    live.end(story)
    assert file.getvalue() == shown(story)


def test_a_heading_is_never_a_page():
    assert heading("A fox").plain == "A fox"
    assert heading("fox " * 100_000).plain == "fox " * 74 + "..."


def test_a_terminal_is_told_nothing_by_a_text():
    evil = "A\x1b[31mred\x1b[0m\x07 \x9b2J fox\r\x7f,\tand\nme."
    assert printable(evil) == "A\u241b[31mred\u241b[0m\u2407 \ufffd2J fox\u240d\u2421,\tand\nme."
    file = StringIO()
    text = LiveText(Console(width=80, file=file))
    text.write(evil)
    text.end()
    story = Story("1", evil, evil, (7,), 0, "nano", "end", ((7, 0, len(evil)),))
    for seen in (file.getvalue(), shown(story), shown(Story("1", evil, evil, (), 0, "bart", "end"))):
        assert "\u241b[31mred" in seen
        assert [mark for mark in ("\x1b[31", "\x07", "\x9b", "\r", "\x7f") if mark in seen] == []
