"""A bench row: a ratio with its spread beside what was promised, and the interleaved timing that measures it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One promise and what was measured: the ratio's median and range over the rounds."""

    name: str
    ratio: float
    low: float
    high: float
    promise: str
    kept: bool | None  # None: a figure reported without a promise
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def interleave(works: Sequence[Callable[[], object]], rounds: int) -> list[list[float]]:
    """Seconds of each work in each round; the works take turns and the order turns too, so noise falls on all alike."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(rounds):
        order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
        for which in order:
            started = time.perf_counter()
            works[which]()
            seconds[which].append(time.perf_counter() - started)
    return seconds


def ratio_row(
    name: str,
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    within: float | None = None,
    note: str = "",
) -> BenchRow:
    """The median over rounds of numerator / denominator, held against a bound."""
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    value = median(ratios)
    promise, kept = "reported", None
    if at_most is not None:
        promise, kept = f"at most {at_most:g}", value <= at_most
    elif at_least is not None:
        promise, kept = f"at least {at_least:g}", value >= at_least
    elif within is not None:
        promise, kept = f"1 ± {within:g}", abs(value - 1) <= within
    return BenchRow(name, value, ratios[0], ratios[-1], promise, kept, note)


def table(title: str, rows: Sequence[BenchRow]) -> Table:
    view = Table(title=title, title_justify="left")
    for heading in ("row", "ratio", "range", "promise", "", "note"):
        view.add_column(heading, overflow="fold")
    marks = {True: Text("kept", "green"), False: Text("broken", "red"), None: Text()}
    for row in rows:
        spread = f"{row.low:.2f} to {row.high:.2f}"
        view.add_row(row.name, f"{row.ratio:.2f}", spread, row.promise, marks[row.kept], row.note)
    return view
