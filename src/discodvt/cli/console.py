"""What every command prints with: results to standard output, progress and notes to standard error.

Scores are shown in tables that fit eighty columns, numbers as papers print them.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress


out = Console(soft_wrap=True, markup=False)  # names may have brackets
err = Console(stderr=True, markup=False)


def progress() -> "Progress":
    """A progress bar on standard error; silent where that is not a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )


@contextmanager
def counting(called: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, as what a stage is given to tell how much is done and how much there is in all."""
    with progress() as bar:
        task = bar.add_task(called, total=None, rate="")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(value: Any) -> None:
    """The one thing a command prints to standard output under --json."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """JSON to standard output, in UTF-8 whatever the terminal's encoding: that is what JSON is in."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
    sys.stdout.buffer.flush()


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
