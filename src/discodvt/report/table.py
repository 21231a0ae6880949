"""A table of scores: rows of cells, which of them is best, and its files in Markdown, LaTeX and CSV.

Pages show the same tables (`templates/parts.html`).
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar, Literal

from discodvt.evaluation.metric import Direction
from discodvt.report import escaping

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}
NONE = "–"
THIN = "†"
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
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found

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
            row,
            cells=[replace(cell, best=cell is winner) for cell, winner in zip(row.cells, winners, strict=True)],
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
    text = escaping.markdown_cell
    lines = [f"**{escaping.markdown(table.title)}.** {escaping.markdown(table.note)}", ""]
    names = [column.name for column in table.columns]
    heads = (
        f"{column.group} {column.heading}"
        if names.count(column.name) > 1
        else column.heading  # without a row of groups
        for column in table.columns
    )
    lines += [_line([text(table.corner), *map(text, heads)])]
    lines += [_line(["---", *("---:" for _ in table.columns)])]
    for heading, rows in table.blocks:
        if heading:
            lines.append(_line([f"*{text(heading)}*", *("" for _ in table.columns)]))
        lines += [_line([text(row.name), *map(_markdown_cell, row.cells)]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_cell(cell: Cell) -> str:
    text = escaping.markdown_cell(cell.text)
    number = (f"**{text}**" if cell.best else text) + cell.stars.replace("*", r"\*") + THIN * cell.thin
    return f"{number} ({cell.interval[0]} to {cell.interval[1]})" if cell.interval else number


def latex(table: Table) -> str:
    """A `booktabs` table in the paper's shape: stars and bold, no intervals (the CSV has them).

    A table of many columns or long texts spans both columns of a paper, with less space between columns.
    """
    width = len(table.columns) + 1
    wide = width > WIDEST_NARROW or any(len(cell.text) > LONGEST_LINE for row in table.rows for cell in row.cells)
    kind = "table*" if wide else "table"
    sides = iter(_latex_column(table, number) for number in range(len(table.columns)))
    # Rules between groups of columns, as the paper has them.
    shape = "l" + "".join(("|" if group else "") + "".join(islice(sides, count)) for group, count in table.groups)
    lines = [rf"\begin{{{kind}}}", r"  \centering", *[r"  \small\setlength{\tabcolsep}{3pt}"] * wide]
    lines += [rf"  \begin{{tabular}}{{{shape}}}", r"    \toprule"]
    if any(group for group, _ in table.groups):
        heads = [rf"\multicolumn{{{count}}}{{c}}{{{escaping.latex(group)}}}" for group, count in table.groups]
        lines.append(f"    & {' & '.join(heads)} \\\\")
    heads = [escaping.latex(column.name) + escaping.latex(column.arrow) for column in table.columns]
    lines += [f"    {' & '.join([escaping.latex(table.corner), *heads])} \\\\"]
    for heading, rows in table.blocks:
        lines.append(r"    \midrule")
        if heading:
            lines += [rf"    \multicolumn{{{width}}}{{c}}{{\textit{{{escaping.latex(heading)}}}}} \\", r"    \midrule"]
        lines += [f"    {' & '.join([escaping.latex(row.name), *map(_latex_cell, row.cells)])} \\\\" for row in rows]
    caption = rf"  \caption{{{escaping.latex(table.title)}. {escaping.latex(table.note)}}}"
    return "\n".join(
        [
            *lines,
            r"    \bottomrule",
            r"  \end{tabular}",
            caption,
            rf"  \label{{tab:{table.name}}}",
            rf"\end{{{kind}}}",
            "",
        ]
    )


def _latex_column(table: Table, number: int) -> str:
    """Numbers are aligned right, words left; long texts are paragraphs."""
    if not table.holds_text(number):
        return "r"
    return r"p{0.4\textwidth}" if any(len(row.cells[number].text) > LONGEST_LINE for row in table.rows) else "l"


def _latex_cell(cell: Cell) -> str:
    text = "--" if cell.text == NONE else escaping.latex(cell.text)
    return (rf"\textbf{{{text}}}" if cell.best else text) + cell.stars + r"$^\dagger$" * cell.thin


def comma_separated(table: Table) -> str:
    """Unrounded values as scored; where a column has intervals or stars, they follow in columns of their own."""
    kinds = [_extras(row.cells[number] for row in table.rows) for number in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads = (name for column, extras in zip(table.columns, kinds, strict=True) for name in _heads(column, extras))
    writer.writerow(["block", table.corner.lower(), *heads])
    for heading, rows in table.blocks:
        for row in rows:
            cells = zip(row.cells, kinds, strict=True)
            values = (value for cell, extras in cells for value in _values(cell, extras))
            writer.writerow([escaping.csv_text(heading), escaping.csv_text(row.name), *values])
    return out.getvalue()


def _extras(cells: Iterable[Cell]) -> tuple[bool, bool]:
    known = list(cells)
    return any(cell.ends for cell in known), any(cell.stars for cell in known)


def _heads(column: Column, extras: tuple[bool, bool]) -> Iterator[str]:
    name = escaping.csv_text(f"{column.group} {column.name}".strip())
    yield name
    if extras[0]:
        yield from (f"{name} low", f"{name} high")
    if extras[1]:
        yield f"{name} stars"


def _values(cell: Cell, extras: tuple[bool, bool]) -> Iterator[str]:
    yield repr(cell.value) if cell.value is not None else escaping.csv_text(cell.text.replace(NONE, ""))
    if extras[0]:
        yield from map(repr, cell.ends) if cell.ends else ("", "")
    if extras[1]:
        yield cell.stars
