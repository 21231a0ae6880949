"""A table of scores as rows of cells; `table_formats` prints it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from discodvt.evaluation.measure import Direction

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}
NONE = "–"
THIN = "†"


@dataclass(frozen=True, slots=True)
class Cell:
    """A number or a text as it is printed, and what is known of it; `value` and `ends` are unrounded, for CSV.

    A `thin` number rests on too little to compete: it is marked, and never best.
    """

    text: str = NONE
    value: float | None = None
    interval: tuple[str, str] | None = None
    ends: tuple[float, float] | None = None
    stars: str = ""
    best: bool = False
    thin: bool = False
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    better: Direction = "none"
    group: str = ""

    @property
    def heading(self) -> str:
        return f"{self.name} {ARROWS[self.better]}".rstrip()


@dataclass(frozen=True, slots=True)
class Row:
    """`paper` marks numbers that are the paper's, never ours; `aside` those no system competes with."""

    name: str
    cells: Sequence[Cell]
    kind: Literal["ours", "aside", "paper"] = "ours"


@dataclass(frozen=True, slots=True)
class Table:
    """Blocks of rows under headings of their own (empty for none); `name` is the stem of its files."""

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    blocks: Sequence[tuple[str, Sequence[Row]]]
    corner: str = "System"

    @property
    def rows(self) -> list[Row]:
        return [row for _, rows in self.blocks for row in rows]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Runs of columns of one group, with their lengths."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found


def stem(name: str) -> str:
    """A name as part of file names and ids."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def with_best(rows: Sequence[Row], columns: Sequence[Column]) -> list[Row]:
    """Mark the best of our rows in each column that has a better side; one row alone is not best of anything."""
    best: list[float | None] = []
    for number, column in enumerate(columns):
        cells = [row.cells[number] for row in rows if row.kind == "ours"]
        known = [cell.value for cell in cells if cell.value is not None and not cell.thin]
        choose = {"higher": max, "lower": min}.get(column.better)
        best.append(choose(known) if choose and len(known) > 1 else None)
    return [
        replace(
            row, cells=[replace(cell, best=_wins(row, cell, top)) for cell, top in zip(row.cells, best, strict=True)]
        )
        for row in rows
    ]


def _wins(row: Row, cell: Cell, top: float | None) -> bool:
    return row.kind == "ours" and not cell.thin and cell.value is not None and cell.value == top
