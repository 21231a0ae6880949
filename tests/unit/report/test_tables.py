"""One table, four ways to print it: nothing lost, nothing broken by what names contain."""

import csv
import io
import re

from discodvt.report.table_formats import comma_separated, html, latex, markdown
from discodvt.report.tables import Cell, Column, Row, Table, with_best

COLUMNS = [Column("B-1", "higher"), Column("rep-8", "lower"), Column("length")]


def row(name: str, *values: float, kind: str = "ours") -> Row:
    return Row(name, [Cell(f"{value:.2f}", value) for value in values], kind)  # type: ignore[arg-type]


def table(*rows: Row) -> Table:
    return Table(
        "main", "A & B", "50% of <stories>", COLUMNS, [("", rows), ("The paper's", [row("P", 9, 9, 9, kind="paper")])]
    )


def test_best_is_by_direction_and_among_ours_only() -> None:
    rows = with_best([row("human", 2, 4, 0, kind="aside"), row("a", 1, 5, 3), row("b", 2, 4, 4)], COLUMNS)
    assert [[cell.best for cell in each.cells] for each in rows] == [[False] * 3, [False] * 3, [True, True, False]]
    alone = with_best([row("a", 1, 5, 3)], COLUMNS)
    assert not any(cell.best for cell in alone[0].cells)


def test_what_rests_on_too_little_is_marked_and_never_best() -> None:
    lone = Row("a", [Cell("99.00", 99, thin=True), Cell("1.00", 1), Cell("1.00", 1)])
    rows = with_best([lone, row("b", 2, 4, 4), row("c", 1, 5, 5)], COLUMNS)
    assert [each.cells[0].best for each in rows] == [False, True, False]
    assert "| 99.00† |" in markdown(table(*rows))
    assert r"99.00$^\dagger$" in latex(table(*rows))
    assert '99.00<sup class="stars">†</sup>' in html(table(*rows))


def test_names_are_escaped_for_each_format() -> None:
    shown = table(row("a|b_c & <d>", 1, 2, 3))
    assert r"a\|b_c" in markdown(shown)
    assert r"a|b\_c \& <d>" in latex(shown)
    assert r"50\% of" in latex(shown)
    assert "a|b_c &amp; &lt;d&gt;" in html(shown)
    assert [line.count("|") - line.count(r"\|") for line in markdown(shown).splitlines()[2:]] == [5] * 5


def test_latex_rows_have_as_many_cells_as_columns() -> None:
    text = latex(table(row("a", 1, 2, 3)))
    body = re.search(r"\\toprule(.*)\\bottomrule", text, flags=re.DOTALL)
    assert body is not None
    lines = [line for line in body[1].splitlines() if line.strip().endswith(r"\\") and "multicolumn" not in line]
    assert {line.count("&") for line in lines} == {3}
    assert r"B-1$\uparrow$" in text


def test_csv_keeps_what_was_measured() -> None:
    cell = Cell("12.35", 0.123456, ("12.00", "13.00"), (0.12, 0.13), "**")
    text = comma_separated(table(Row("a", [cell, Cell(), Cell("3.0", 3.0)])))
    first = next(csv.DictReader(io.StringIO(text)))
    assert first["B-1"] == "0.123456"
    assert (first["B-1 low"], first["B-1 high"], first["B-1 stars"]) == ("0.12", "0.13", "**")
    assert first["rep-8"] == ""
    assert "rep-8 low" not in first
