"""What others wrote is shown and never obeyed: by a terminal, a page, Markdown, LaTeX, a spreadsheet."""

import csv
import io
import re

import pytest

from discodvt.discourse import Annotation
from discodvt.report.escaping import csv_text, figure_text, latex, markdown_cell, one_line, printable
from discodvt.report.pages import ReportSection, annotation_page, code_page, report_page, story_page
from discodvt.report.table import Cell, Column, Table, TableRow, comma_separated, markdown
from discodvt.writing.story import Story

WILD = "a\x1b[31m\u202eb\u2066c\x00\x9b\ud800<script>alert(1)</script>"
SHOWN = "a␛[31m�b�c␀��&lt;script&gt;alert(1)&lt;/script&gt;"
NEVER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|<script>alert")


def test_every_place_stays_and_ordinary_text_is_untouched() -> None:
    assert len(printable(WILD)) == len(WILD)
    text = "Été, שלום, مرحبا, 你好 🦊\n\tend"
    assert printable(text) == text


def table(name: str) -> Table:
    return Table("t", name, name, [Column(name, "higher", name)], [(name, [TableRow(name, [Cell(name)])])], name)


@pytest.mark.parametrize("kind", ["report", "stories", "codes", "annotation"])
def test_no_page_holds_a_control_character_or_a_strange_tag(kind: str) -> None:
    if kind == "report":
        page = report_page(WILD, WILD, [ReportSection("s", WILD, WILD, [table(WILD)])])
    elif kind == "stories":
        story = Story("1", WILD, WILD, (1, 2), 0, "nano", "end", ((1, 0, len(WILD)),))
        page = story_page([story, story], meanings={1: WILD})
    elif kind == "codes":
        place = {"beginning": 0.7, "middle": 0.2, "end": 0.1}
        entry = {"code": 1, "share": 0.5, "grams": [{"text": WILD, "count": 1}], "place": place}
        entry |= {"markers": [], "relations": [], "next": [], "previous": [], "nearest": []}
        entry |= {"examples": [{"before": WILD, "text": WILD, "after": WILD}]}
        usage = {
            "used": 1,
            "vocabulary": 2,
            "dead": [0],
            "perplexity": 1.0,
            "utilisation": {"mean": 1.0, "bins": [1.0]},
        }
        model = {"name": WILD, "tokens_per_code": 8}
        told = [{"id": "1", "prompt": WILD, "segments": [[1, WILD]]}]
        page = code_page({"model": model, "split": WILD, "stories": 1, "usage": usage, "codes": [entry], "told": told})
    else:
        page = annotation_page(WILD, Annotation([(0, len(WILD))], [], []), title=WILD)
    assert SHOWN in page
    assert not NEVER.search(page)
    page.encode()


def test_markdown_tables_hold_no_markup_of_a_name() -> None:
    text = markdown(table("<script>x</script> `code` *b* _c_ [d](e) | \\| ~~f~~ &lt; \n# g"))
    assert "<script" not in text
    assert r"\`code\` \*b* \_c\_ \[d\](e) \| \\\| \~\~f\~\~ &amp;lt; ¶ # g" in text
    assert [line.count("|") - line.count(r"\|") for line in text.splitlines()[2:]] == [3] * 4
    assert markdown_cell("p < 0.05, ** p < 0.01, snake_case & co") == "p < 0.05, ** p < 0.01, snake_case & co"


def test_latex_runs_no_command_of_a_name() -> None:
    assert latex("\\input{x}%\x07\n\nend") == r"\textbackslash{}input\{x\}\%? \P{} end"


def test_a_spreadsheet_computes_nothing() -> None:
    assert [csv_text(name) for name in ("=1+1", "+1", "-1", "@x", "a=b")] == ["'=1+1", "'+1", "'-1", "'@x", "a=b"]
    rows = list(csv.reader(io.StringIO(comma_separated(table("=1+1")))))
    assert not [cell for row in rows[1:] for cell in row if cell.startswith("=")]
    numbers = Table("t", "t", "n", [Column("x")], [("", [TableRow("a", [Cell("−1.00", -1.0)])])])
    (row,) = csv.DictReader(io.StringIO(comma_separated(numbers)))
    assert row["x"] == "-1.0"  # a number stays one


def test_a_figure_reads_no_formula() -> None:
    assert figure_text("$x_1$\n\u202e") == r"\$x_1\$ ¶ �"


def test_phrases_stand_on_one_line() -> None:
    assert one_line(". \nThe end ") == ". ¶ The end"
    assert one_line("a\r\nb") == "a ¶ b"
