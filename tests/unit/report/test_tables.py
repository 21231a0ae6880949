"""One table, four ways to print it: nothing lost, nothing broken by what names contain."""

import csv
import io
import re

from discodvt.report.pages import ReportSection, report_page
from discodvt.report.table import Cell, Column, Table, TableRow, comma_separated, latex, markdown, with_best

COLUMNS = [Column("B-1", "higher"), Column("rep-8", "lower"), Column("length")]


def row(name: str, *values: float, kind: str = "ours") -> TableRow:
    return TableRow(name, [Cell(f"{value:.2f}", value) for value in values], kind)  # type: ignore[arg-type]


def table(*rows: TableRow) -> Table:
    return Table(
        "main", "A & B", "50% of <stories>", COLUMNS, [("", rows), ("The paper's", [row("P", 9, 9, 9, kind="paper")])]
    )


def html(shown: Table) -> str:
    return report_page("title", "facts", [ReportSection("s", "section", "lead", [shown])])


def test_best_is_by_direction_and_among_ours_only() -> None:
    rows = with_best([row("human", 2, 4, 0, kind="aside"), row("a", 1, 5, 3), row("b", 2, 4, 4)], COLUMNS)
    assert [[cell.best for cell in each.cells] for each in rows] == [[False] * 3, [False] * 3, [True, True, False]]
    alone = with_best([row("a", 1, 5, 3)], COLUMNS)
    assert not any(cell.best for cell in alone[0].cells)


def test_numbers_printed_alike_are_a_tie_and_none_is_best() -> None:
    alike = [row("a", 0.0, 1.001, 3), row("b", 0.0, 1.002, 4), row("c", -1, 5, 5)]
    assert not any(cell.best for each in with_best(alike, COLUMNS) for cell in each.cells)


def test_what_rests_on_too_little_is_marked_and_never_best() -> None:
    lone = TableRow("a", [Cell("99.00", 99, thin=True), Cell("1.00", 1), Cell("1.00", 1)])
    rows = with_best([lone, row("b", 2, 4, 4), row("c", 1, 5, 5)], COLUMNS)
    assert [each.cells[0].best for each in rows] == [False, True, False]
    assert "| 99.00† |" in markdown(table(*rows))
    assert r"99.00$^\dagger$" in latex(table(*rows))
    assert '99.00<sup class="stars">†</sup>' in html(table(*rows))


def test_names_are_escaped_for_each_format() -> None:
    shown = table(row("a|b_c & <d>", 1, 2, 3))
    assert r"a\|b_c" in markdown(shown)
    assert r"a\textbar{}b\_c \& \textless{}d\textgreater{}" in latex(shown)
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


SPECIAL = r"\ & % $ # _ { } } ~ ^ < > | “¶” – − ↑ †"


def well_formed(text: str) -> None:
    """What LaTeX would stumble over: environments, braces, maths left open, bare specials, rows of other lengths."""
    open_environments: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{([\w*]+)\}", text):
        if kind == "begin":
            open_environments.append(name)
        else:
            assert open_environments.pop() == name
    assert open_environments == []
    bare = re.sub(r"\\[a-zA-Z]+|\\.", "", text)  # without commands and escaped signs
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[%#_~<>|\\–−↑↓†¶]", re.sub(r"\{tabular\}.*|\$[^$]*\$", "", bare))
    shape = re.search(r"\\begin\{tabular\}\{(.+)\}$", text, flags=re.MULTILINE)
    assert shape is not None
    width = len(re.sub(r"\{[^}]*\}|\|", "", shape[1]))
    for line in re.findall(r"^    (.*) \\\\$", text, flags=re.MULTILINE):
        spans = [int(count) - 1 for count in re.findall(r"\\multicolumn\{(\d+)\}", line)]
        assert len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans) == width, line


def test_latex_is_well_formed_whatever_a_name_holds() -> None:
    columns = [Column("B-1", "higher", "g_1"), Column(SPECIAL, "lower", "g_1"), Column("text", group="h&h")]
    cells = [Cell("< 0.001", 0.0, stars="**"), Cell("−1.00", -1, best=True, thin=True), Cell(SPECIAL)]
    shown = Table("main", SPECIAL, f"50% {SPECIAL}", columns, [(SPECIAL, [TableRow(SPECIAL, cells)])], SPECIAL)
    well_formed(latex(shown))
    assert r"\begin{tabular}{l|rr|l}" in latex(shown)
    assert r"\textless{} 0.001**" in latex(shown)
    long = Table("main", "t", "n", COLUMNS[:1], [("", [TableRow("a", [Cell("word " * 9)])])])
    well_formed(latex(long))
    assert r"{lp{0.4\textwidth}}" in latex(long)
    many = Table("main", "t", "n", COLUMNS * 3, [("", [row("a", *range(9))])])
    well_formed(latex(many))
    assert r"\begin{table*}" in latex(many)


def test_csv_keeps_what_was_measured() -> None:
    cell = Cell("12.35", 0.123456, ("12.00", "13.00"), (0.12, 0.13), "**")
    text = comma_separated(table(TableRow("a", [cell, Cell(), Cell("3.0", 3.0)])))
    first = next(csv.DictReader(io.StringIO(text)))
    assert first["B-1"] == "0.123456"
    assert (first["B-1 low"], first["B-1 high"], first["B-1 stars"]) == ("0.12", "0.13", "**")
    assert first["rep-8"] == ""
    assert "rep-8 low" not in first
