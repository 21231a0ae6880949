"""A table of scores: rows of cells, which of them is best, and its files in Markdown, LaTeX and CSV.

Their markup is in `templates/table.md` and `templates/table.tex`; pages show the same tables (`templates/parts.html`).
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, ClassVar, Literal

from discodvt.evaluation.metric import Direction
from discodvt.report import escaping

if TYPE_CHECKING:
    from jinja2 import Environment

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}
NONE = "–"
WIDEST_NARROW = 6  # columns of a LaTeX table that fits one column of a paper
LONGEST_LINE = 40  # characters of a text that is not broken in LaTeX


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
    def arrow(self) -> str:
        return ARROWS[self.better]

    @property
    def heading(self) -> str:
        return f"{self.name} {self.arrow}".rstrip()


@dataclass(frozen=True, slots=True)
class TableRow:
    """`paper` marks numbers that are the paper's, never ours; `aside` those no system competes with."""

    name: str
    cells: Sequence[Cell]
    kind: Literal["ours", "aside", "paper"] = "ours"


@dataclass(frozen=True, slots=True)
class Table:
    """Blocks of rows under headings of their own (empty for none); `name` is the stem of its files."""

    macro: ClassVar[str] = "table"  # of templates/parts.html

    name: str
    title: str
    note: str
    columns: Sequence[Column]
    blocks: Sequence[tuple[str, Sequence[TableRow]]]
    corner: str = "System"

    @property
    def rows(self) -> list[TableRow]:
        return [row for _, rows in self.blocks for row in rows]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Runs of columns of one group, with their lengths."""
        return [(group, len(list(run))) for group, run in groupby(self.columns, key=lambda column: column.group)]

    def holds_text(self, number: int) -> bool:
        """Whether a column holds words (aligned left) and not numbers (aligned right)."""
        cells = (row.cells[number] for row in self.rows)
        return any(cell.value is None and cell.text != NONE for cell in cells)


def stem(name: str) -> str:
    """A name as part of file names and ids."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)


def with_best(rows: Sequence[TableRow], columns: Sequence[Column]) -> list[TableRow]:
    """Mark the best of our rows in each column that has a better side.

    One row alone is not best of anything, and neither are two whose numbers are printed alike.
    """
    ours = [row for row in rows if row.kind == "ours"]
    winners = [_winner([row.cells[number] for row in ours], column.better) for number, column in enumerate(columns)]
    return [
        replace(
            row, cells=[replace(cell, best=cell is winner) for cell, winner in zip(row.cells, winners, strict=True)]
        )
        for row in rows
    ]


def _winner(cells: Sequence[Cell], better: Direction) -> Cell | None:
    known = [(cell.value, cell) for cell in cells if cell.value is not None and not cell.thin]
    if better == "none" or len(known) < 2:
        return None
    _, best = (max if better == "higher" else min)(known, key=lambda pair: pair[0])
    return best if [cell.text for _, cell in known].count(best.text) == 1 else None


def markdown(table: Table) -> str:
    """GitHub's tables: best in bold, intervals in brackets."""
    names = [column.name for column in table.columns]  # a column of several groups needs their names: no row has them
    headings = [
        f"{column.group} {column.heading}" if names.count(column.name) > 1 else column.heading
        for column in table.columns
    ]
    return _templates().get_template("table.md").render(table=table, headings=headings)


def latex(table: Table) -> str:
    """A `booktabs` table in the paper's shape: stars and bold, no intervals (the CSV has them).

    A table of many columns or long texts spans both columns of a paper, with less space between columns.
    """
    texts = [[cell.text for cell in row.cells] for row in table.rows]
    wide = len(table.columns) >= WIDEST_NARROW or any(len(text) > LONGEST_LINE for row in texts for text in row)
    sides = iter(_latex_column(table, number) for number in range(len(table.columns)))
    # Rules between groups of columns, as the paper has them.
    shape = "l" + "".join(("|" if group else "") + "".join(islice(sides, count)) for group, count in table.groups)
    return _templates().get_template("table.tex").render(table=table, wide=wide, shape=shape)


def _latex_column(table: Table, number: int) -> str:
    """Numbers are aligned right, words left; long texts are paragraphs."""
    if not table.holds_text(number):
        return "r"
    return r"p{0.4\textwidth}" if any(len(row.cells[number].text) > LONGEST_LINE for row in table.rows) else "l"


@cache
def _templates() -> "Environment":
    """Templates of text files, with signs that LaTeX leaves free; what they print is escaped by their filters."""
    from jinja2 import Environment, PackageLoader

    environment = Environment(
        *("<%", "%>", "<<", ">>", "<#", "#>"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=PackageLoader("discodvt.report"),
    )
    environment.filters |= {"paragraph": escaping.markdown, "cell": escaping.markdown_cell, "tex": escaping.latex}
    return environment


def comma_separated(table: Table) -> str:
    """Unrounded values as scored; where a column has intervals or stars, they follow in columns of their own."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = list(zip(*(row.cells for row in table.rows), strict=True))
    kinds = [(any(cell.ends for cell in cells), any(cell.stars for cell in cells)) for cells in columns]
    heads = [name for column, kind in zip(table.columns, kinds, strict=True) for name in _heads(column, *kind)]
    writer.writerow(["block", table.corner.lower(), *heads])
    for heading, rows in table.blocks:
        for row in rows:
            values = [value for cell, kind in zip(row.cells, kinds, strict=True) for value in _values(cell, *kind)]
            writer.writerow([escaping.csv_text(heading), escaping.csv_text(row.name), *values])
    return out.getvalue()


def _heads(column: Column, ends: bool, stars: bool) -> list[str]:
    name = escaping.csv_text(f"{column.group} {column.name}".strip())
    return [name, *[f"{name} low", f"{name} high"] * ends, *[f"{name} stars"] * stars]


def _values(cell: Cell, ends: bool, stars: bool) -> list[str]:
    text = repr(cell.value) if cell.value is not None else escaping.csv_text(cell.text.replace(NONE, ""))
    return [text, *(map(repr, cell.ends) if cell.ends else [""] * 2 * ends), *[cell.stars] * stars]
