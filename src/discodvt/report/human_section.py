"""The human study in a report (`discodvt judge score`): the paper's Table 4, what its tests say, judges, side bias."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from discodvt.report.escaping import one_line
from discodvt.report.pages import Part, ReportSection, report_page
from discodvt.report.score_cells import Dataset, paper_tables
from discodvt.report.systems import HUMAN, ReportedSystem
from discodvt.report.table import Cell, Column, Table, TableRow, latex, markdown, stem
from discodvt.resumable import replacing

FORMATS = {"md": markdown, "tex": latex}
PAGE = "table4.html"
LEAD = (
    "People compared stories in pairs without knowing who wrote them. Shares are of items, each decided by the "
    "majority of its judges; judges whom the study's rule excludes are left out."
)
SIMULATED = "SIMULATED JUDGES, not people: made to plan a study or to try the machinery, and no result."


def human_section(systems: Sequence[ReportedSystem], dataset: Dataset | None = None) -> ReportSection | None:
    """All studies among the runs; None without one."""
    runs = [run for system in systems for run in system.of_stage(HUMAN)]
    parts = [part for run in runs for part in human_parts(run.content, dataset, name=run.name, many=len(runs) > 1)]
    if not parts:
        return None
    simulated = any(run.content["simulated"] for run in runs)
    return ReportSection("human", "Human evaluation", f"{SIMULATED} {LEAD}" if simulated else LEAD, parts)


def human_parts(
    scores: Mapping[str, Any], dataset: Dataset | None = None, *, name: str = "", many: bool = False
) -> list[Part]:
    suffix = f"-{stem(name)}" if many else ""
    label = "SIMULATED: " if scores["simulated"] else ""
    return [_table4(scores, dataset, suffix, label), _tests(scores, suffix, label), _judges(scores, suffix, label)]


def write_human_tables(directory: Path, scores: Mapping[str, Any]) -> list[Path]:
    """The tables of a scored study as files beside its scores: a page, Markdown and LaTeX."""
    parts = human_parts(scores)
    lead = f"{SIMULATED} {LEAD}" if scores["simulated"] else LEAD
    facts = f"Study {scores['study'][:12]}; {len(scores['judges'])} judges."
    title = ("SIMULATED: " if scores["simulated"] else "") + one_line(scores["title"])
    section = ReportSection("human", "Human evaluation", lead, parts)
    written = {PAGE: report_page(title, facts, [section])}
    for part in parts:
        assert isinstance(part, Table)
        written |= {f"{part.name}.{kind}": formatted(part) for kind, formatted in FORMATS.items()}
    for name, text in written.items():
        with replacing(directory / name) as partial:
            partial.write_text(text, encoding="utf-8")
    return [directory / name for name in written]


def human_summary(scores: Mapping[str, Any]) -> str:
    """The result in a few lines for a terminal."""
    excluded = sum(bool(judge["excluded"]) for judge in scores["judges"])
    lines = [SIMULATED] if scores["simulated"] else []
    lines.append(f"{len(scores['judges'])} judges, {excluded} excluded by the study's rule")
    for each in scores["kept"]["comparisons"]:
        kappa = "-" if each["kappa"] is None else f"{each['kappa']:.2f} ({each['kappa_words']})"
        paper = each["paper_reading"]
        lines.append(
            f"{one_line(scores['ours'])} against {one_line(each['rival'])}, {each['question']}: "
            f"win {each['win']} lose {each['lose']} tie {each['tie']} of {each['items']}; "
            f"p {each['p']:.4f}, Holm {each['p_holm']:.4f}{each['stars']}; kappa {kappa}; "
            f"the paper's reading (one-sided, single judgements) p {paper['p']:.4f}{paper['stars']}"
        )
    return "\n".join(lines)


def _table4(scores: Mapping[str, Any], dataset: Dataset | None, suffix: str, label: str) -> Table:
    """Win, lose, tie and kappa of each question against each rival."""
    questions = [question["id"] for question in scores["questions"]]
    columns = [
        Column(name, "none", group=question.capitalize())
        for question in questions
        for name in ("Win", "Lose", "Tie", "κ")
    ]
    found = {(each["rival"], each["question"]): each for each in scores["kept"]["comparisons"]}
    rows = [
        TableRow(rival, [cell for question in questions for cell in _shares(found[rival, question])])
        for rival in scores["rivals"]
    ]
    note = (
        f"{scores['ours']} against each system, as shares of items. * p < 0.05, ** p < 0.01 (two-sided exact sign "
        "test over items, ties dropped, Holm's correction over all tests). κ: Fleiss' kappa."
    )
    blocks = [("", rows), *_paper(questions, dataset)]
    return Table(f"human{suffix}", f"{label}Human evaluation", note, columns, blocks, corner="Against")


def _shares(each: Mapping[str, Any]) -> Iterator[Cell]:
    n = each["items"]
    for kind in ("win", "lose", "tie"):
        if not n:
            yield Cell()
            continue
        tip = f"{each[kind]} of {n} items; {each['signatures']['p']}"
        yield Cell(f"{each[kind] / n:.2f}", each[kind] / n, stars=each["stars"] if _won(each, kind) else "", tip=tip)
    yield _kappa(each)


def _won(each: Mapping[str, Any], kind: str) -> bool:
    """Whether the stars belong to this column: they mark the side that is preferred."""
    return bool(kind != "tie" and each[kind] == max(each["win"], each["lose"]))


def _kappa(each: Mapping[str, Any]) -> Cell:
    if each["kappa"] is None:
        return Cell()
    ends = each["kappa_interval"]
    shown = None if ends is None else (f"{ends[0]:.2f}", f"{ends[1]:.2f}")
    tip = f"{each['kappa_words']}, {each['kappa_items']} items; {each['signatures']['kappa']}"
    return Cell(f"{each['kappa']:.2f}", each["kappa"], shown, tuple(ends) if ends else None, tip=tip)


def _paper(questions: Sequence[str], dataset: Dataset | None) -> list[tuple[str, list[TableRow]]]:
    """The paper's rows, where its dataset and its questions are those of the study."""
    held = paper_tables()["human"]
    if dataset not in held or list(questions) != held["questions"]:
        return []
    tip = f"{paper_tables()['source']}, Table {held['table']}"
    rows = [
        TableRow(
            name,
            [Cell(text.rstrip("*"), float(text.rstrip("*")), stars="*" * text.count("*"), tip=tip) for text in cells],
            "paper",
        )
        for name, *cells in held[dataset]
    ]
    return [(f"The paper's numbers (Wikiplots, its Table {held['table']}; DiscoDVT against)", rows)]


def _tests(scores: Mapping[str, Any], suffix: str, label: str) -> Table:
    columns = [Column(name) for name in ("p", "p (Holm)", "win share", "p flips", "paper's p", "α", "p, all judges")]
    everybody = {(each["rival"], each["question"]): each for each in scores["all"]["comparisons"]}
    rows = []
    for each in scores["kept"]["comparisons"]:
        ends, paper, signatures = each["win_interval"], each["paper_reading"], each["signatures"]
        share = Cell()
        if ends is not None:
            shown = (f"{ends[0]:.2f}", f"{ends[1]:.2f}")
            share = Cell(
                f"{each['win_share']:.2f}", each["win_share"], shown, tuple(ends), tip=signatures["win_interval"]
            )
        alpha = (
            Cell() if each["alpha"] is None else Cell(f"{each['alpha']:.2f}", each["alpha"], tip=signatures["alpha"])
        )
        cells = [
            _p(each["p"], signatures["p"]),
            _p(each["p_holm"], signatures["p"], each["stars"]),
            share,
            _p(each["p_sign_flip"], signatures["p_sign_flip"]),
            _p(paper["p"], signatures["paper_reading"], paper["stars"]),
            alpha,
            _p(everybody[each["rival"], each["question"]]["p"], "no judge excluded"),
        ]
        rows.append(TableRow(f"{each['rival']}, {each['question']}", cells))
    note = (
        "p: two-sided exact sign test over items, the primary one. Win share: of decided items, with Wilson's "
        "interval. p flips: items' signs flipped. Paper's p: one-sided over single judgements, the only reading that "
        "gives the paper's stars; it takes judges of one item for independent. α: Krippendorff's alpha. All judges: "
        "nobody excluded."
    )
    return Table(f"human_tests{suffix}", f"{label}Tests", note, columns, [("", rows)], corner="Against")


def _p(value: float, tip: str, starred: str = "") -> Cell:
    return Cell("<0.0001" if value < 0.0001 else f"{value:.4f}", value, stars=starred, tip=tip)


def _judges(scores: Mapping[str, Any], suffix: str, label: str) -> Table:
    columns = [Column(name) for name in ("items", "checks passed", "too fast", "excluded")]
    rows = []
    for number, judge in enumerate(scores["judges"], start=1):
        passed = Cell(f"{judge['passed']} of {judge['checks']}")
        cells = [_count(judge["items"]), passed, _count(judge["fast"]), Cell(judge["excluded"] or "no")]
        rows.append(TableRow(f"judge {number}", cells))
    sides = (
        f"{question}: {100 * each['share']:.1f}% left (p {each['p']:.3f})"
        for question, each in scores["kept"]["side_bias"].items()
        if each["share"] is not None
    )
    rule = scores["exclusion"]
    note = (
        f"Excluded by the rule fixed before: fewer than {rule['least_checks_passed']:.0%} of checks passed, or more "
        f"than {rule['most_fast']:.0%} of items faster than {rule['words_per_second']:g} words a second. "
        f"Side bias, of choices of a side: {'; '.join(sides) or 'none'}."
    )
    return Table(f"human_judges{suffix}", f"{label}Judges", note, columns, [("", rows)], corner="Judge")


def _count(value: int) -> Cell:
    return Cell(str(value), value)
