"""Scores in the terminal: a table that fits eighty columns, numbers as papers print them."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table


def score_table(title: str, *headings: str) -> Table:
    """An empty table with a row for each score."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("score", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def number(score: dict[str, Any], key: str) -> str:
    """Fractions in percent, bits to four places."""
    value = score[key] * (100 if score["unit"] == "fraction" else 1)
    return f"{value:z.{4 if score['unit'] == 'bits' else 2}f}"


def interval(score: dict[str, Any]) -> str:
    """The interval of a score, or of the difference of two; "too few" where it rests on too little."""
    if any("too_few" in side for side in (score, score.get("a", {}), score.get("b", {}))):
        return "too few"
    return "none" if score["low"] is None else f"{number(score, 'low')} to {number(score, 'high')}"
