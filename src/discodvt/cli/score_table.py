"""Scores in the terminal: tables that fit eighty columns, numbers as papers print them."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def score_table(headings: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """Rows of a name and its numbers."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(headings[0], no_wrap=title is not None, overflow="fold")
    for heading in headings[1:]:
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def number(score: dict[str, Any], key: str = "value") -> str:
    """Fractions in percent, bits to four places."""
    value = score[key] * (100 if score["unit"] == "fraction" else 1)
    return f"{value:z.{4 if score['unit'] == 'bits' else 2}f}"


def interval(score: dict[str, Any]) -> str:
    """The interval of a score, or of the difference of two; "too few" where it rests on too little."""
    if any("too_few" in side for side in (score, score.get("a", {}), score.get("b", {}))):
        return "too few"
    return "none" if score["low"] is None else f"{number(score, 'low')} to {number(score, 'high')}"


def compared(each: dict[str, Any]) -> tuple[str, str, str, str]:
    """Two systems on one score: a, b, a - b and its interval."""
    return number(each["a"]), number(each["b"]), number(each, "difference"), interval(each)
