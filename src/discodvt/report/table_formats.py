"""A table printed as HTML, Markdown, LaTeX or CSV."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice

from discodvt.report.tables import ARROWS, NONE, THIN, Cell, Column, Row, Table

WIDEST_NARROW = 6  # columns of a LaTeX table that fits one column of a paper
LONGEST_LINE = 40  # characters of a text that is not broken in LaTeX
TEXT = ' class="text"'  # words stand at the left, numbers at the right


def markdown(table: Table) -> str:
    """GitHub's tables: best in bold, intervals in brackets."""
    lines = [f"**{table.title}.** {table.note}", ""]
    lines += [_line([table.corner, *(column.heading for column in table.columns)])]
    lines += [_line(["---", *("---:" for _ in table.columns)])]
    for heading, rows in table.blocks:
        if heading:
            lines.append(_line([f"*{heading}*", *("" for _ in table.columns)]))
        lines += [_line([row.name, *map(_markdown_cell, row.cells)]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _markdown_cell(cell: Cell) -> str:
    number = (f"**{cell.text}**" if cell.best else cell.text) + cell.stars.replace("*", r"\*") + THIN * cell.thin
    return f"{number} ({cell.interval[0]} to {cell.interval[1]})" if cell.interval else number


def latex(table: Table) -> str:
    """A `booktabs` table in the paper's shape: stars and bold, no intervals (the CSV has them).

    A table of many columns or long texts spans both columns of a paper and stands closer.
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
        heads = [rf"\multicolumn{{{count}}}{{c}}{{{_tex(group)}}}" for group, count in table.groups]
        lines.append(f"    & {' & '.join(heads)} \\\\")
    arrows = {"↑": r"$\uparrow$", "↓": r"$\downarrow$"}
    heads = [_tex(column.name) + arrows.get(ARROWS[column.better], "") for column in table.columns]
    lines += [f"    {' & '.join([_tex(table.corner), *heads])} \\\\"]
    for heading, rows in table.blocks:
        lines.append(r"    \midrule")
        if heading:
            lines += [rf"    \multicolumn{{{width}}}{{c}}{{\textit{{{_tex(heading)}}}}} \\", r"    \midrule"]
        lines += [f"    {' & '.join([_tex(row.name), *map(_latex_cell, row.cells)])} \\\\" for row in rows]
    caption = rf"  \caption{{{_tex(table.title)}. {_tex(table.note)}}}"
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
    """Numbers stand at the right, words at the left, long texts in a paragraph."""
    if not _holds_text(table, number):
        return "r"
    return r"p{0.4\textwidth}" if any(len(row.cells[number].text) > LONGEST_LINE for row in table.rows) else "l"


def _latex_cell(cell: Cell) -> str:
    text = "--" if cell.text == NONE else _tex(cell.text)
    return (rf"\textbf{{{text}}}" if cell.best else text) + cell.stars + r"$^\dagger$" * cell.thin


_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "¶": r"\P{}"}
_TEX |= {sign: "\\" + sign for sign in "&%$#_{}"} | {"–": "--", "−": "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"}
_TEX[THIN] = r"$^\dagger$"


def _tex(text: str) -> str:
    return re.sub("|".join(map(re.escape, _TEX)), lambda found: _TEX[found[0]], text)


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
            writer.writerow([heading, row.name, *(value for cell, extras in cells for value in _values(cell, extras))])
    return out.getvalue()


def _extras(cells: Iterable[Cell]) -> tuple[bool, bool]:
    known = list(cells)
    return any(cell.ends for cell in known), any(cell.stars for cell in known)


def _heads(column: Column, extras: tuple[bool, bool]) -> Iterator[str]:
    name = f"{column.group} {column.name}".strip()
    yield name
    if extras[0]:
        yield from (f"{name} low", f"{name} high")
    if extras[1]:
        yield f"{name} stars"


def _values(cell: Cell, extras: tuple[bool, bool]) -> Iterator[str]:
    yield repr(cell.value) if cell.value is not None else cell.text.replace(NONE, "")
    if extras[0]:
        yield from map(repr, cell.ends) if cell.ends else ("", "")
    if extras[1]:
        yield cell.stars


def html(table: Table) -> str:
    """The table in a frame that scrolls sideways; intervals in small print below each number."""
    bodies = "".join(f"<tbody>{''.join(_html_rows(table, *block))}</tbody>" for block in table.blocks)
    return (
        f'<figure class="table" id="table-{table.name}">'
        f"<figcaption><b>{escape(table.title)}.</b> {escape(table.note)}</figcaption>"
        f'<div class="wide" data-group><table><thead>{_html_head(table)}</thead>{bodies}</table></div></figure>'
    )


def _html_head(table: Table) -> str:
    groups = ""
    if any(group for group, _ in table.groups):
        spans = (f'<th colspan="{count}" scope="colgroup">{escape(group)}</th>' for group, count in table.groups)
        groups = f'<tr class="groups"><td></td>{"".join(spans)}</tr>'
    heads = [f'<th scope="col">{escape(table.corner)}</th>']
    for number, column in enumerate(table.columns):
        kind = TEXT if _holds_text(table, number) else ""
        heads.append(
            f'<th scope="col"{kind}>{escape(column.name)}<span class="arrow">{ARROWS[column.better]}</span></th>'
        )
    return f"{groups}<tr>{''.join(heads)}</tr>"


def _html_rows(table: Table, heading: str, rows: Sequence[Row]) -> Iterator[str]:
    if heading:
        yield f'<tr><th class="block" colspan="{len(table.columns) + 1}">{escape(heading)}</th></tr>'
    text = [_holds_text(table, number) for number in range(len(table.columns))]
    for row in rows:
        cells = "".join(map(_html_cell, row.cells, text))
        yield f'<tr class="{row.kind}"><th scope="row">{escape(row.name)}</th>{cells}</tr>'


def _holds_text(table: Table, column: int) -> bool:
    cells = [row.cells[column] for row in table.rows]
    return any(cell.value is None and cell.text != NONE for cell in cells)


def _html_cell(cell: Cell, text: bool) -> str:
    number = f"<b>{escape(cell.text)}</b>" if cell.best else escape(cell.text)
    marks = cell.stars or THIN * cell.thin
    stars = f'<sup class="stars">{marks}</sup>' if marks else ""
    below = f"<small>{escape(cell.interval[0])} to {escape(cell.interval[1])}</small>" if cell.interval else ""
    tip = f' data-tip="{escape(cell.tip)}"' if cell.tip else ""
    kind = TEXT if text else ""
    return f"<td{kind}{tip}>{number}{stars}{below}</td>"
