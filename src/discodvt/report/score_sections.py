"""Metrics in a report: the paper's main table with stars, its ablation, modern scores, comparisons of two systems."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from discodvt.evaluation.scores import Mode
from discodvt.report.charts import Colors, Spread, intervals
from discodvt.report.pages import Part, ReportSection
from discodvt.report.score_cells import (
    NEEDS_REFERENCES,
    Dataset,
    compared,
    few_note,
    in_percent,
    interval_of,
    number,
    paper_block,
    score_cell,
    score_cells,
    stars,
)
from discodvt.report.systems import DISCOURSE, ReportedSystem, StageRun
from discodvt.report.table import Cell, Column, Table, TableRow, stem, with_best

MAIN = ("B-1", "B-2", "BLEU", "MSJ-2", "MSJ-3", "rB-1", "rB-2", "rBLEU", "D-4", "D-5", "rep-8", "rep-16")  # its Table 2
ABLATION = ("B-1", "MSJ-2", "D-4", "rep-8")  # its Table 3
STARS = "* p < 0.05, ** p < 0.01 in the t-test, against every system compared with."
COMPARISON = (
    "Differences between two systems on the same prompts. The interval is that of the difference; p drawn is the "
    "paired bootstrap's (random halves for pooled scores); p and stars of the t-test as in the paper."
)
T_TESTS = {
    "story": "paired over stories, those of one prompt averaged",
    "fold": "over ten folds of prompts",
    "none": "none possible",
}


def score_sections(
    systems: Sequence[ReportedSystem], colors: Colors, dataset: Dataset | None
) -> Iterator[ReportSection]:
    """Main results, ablation and modern scores, each where there is something to show."""
    scored = [system for system in systems if system.scored("paper")]
    whole = [system for system in scored if system.ablation_of is None]
    if whole:
        yield _main(whole, systems, colors, dataset)
    if len(whole) < len(scored):
        yield _ablation(scored, systems, dataset)
    modern = [system for system in systems if system.scored("modern")]
    if modern:
        table = _table("modern", "Modern scores", modern, systems, "modern")
        lead = "Corpus BLEU by sacrebleu, distinct corrected for length, lengths and endings."
        yield ReportSection("modern", "Modern scores", lead, [table])


def _main(
    systems: Sequence[ReportedSystem], among: Sequence[ReportedSystem], colors: Colors, dataset: Dataset | None
) -> ReportSection:
    table = _table("main", "Main results", systems, among, "paper", beside=dataset)
    parts: list[Part] = [table]
    if len(systems) > 1:
        spreads: dict[str, dict[str, Spread]] = {column.name: {} for column in table.columns}
        for system in systems:
            for name, score in _scores(system, "paper").items():
                if not _against_itself(system, name):
                    spreads[name][system.name] = in_percent(score)
        note = "The same numbers with their 95% intervals."
        parts.append(intervals("main", "Main results with intervals", note, spreads, colors, columns=5))
    lead = (
        "Stories against references: overlap (BLEU, MS-Jaccard), recall (reverse BLEU), diversity (distinct) and "
        "repetition, in percent, as the paper defines them."
    )
    return ReportSection("main", "Main results", lead, parts)


def _ablation(
    systems: Sequence[ReportedSystem], among: Sequence[ReportedSystem], dataset: Dataset | None
) -> ReportSection:
    shown = [system for system in systems if system.ablation_of or any(s.ablation_of == system.name for s in systems)]
    table = _table("ablation", "Ablation", shown, among, "paper", names=ABLATION, beside=dataset)
    return ReportSection("ablation", "Ablation", "The effect of each part of the training.", [table])


def _table(
    name: str,
    title: str,
    systems: Sequence[ReportedSystem],
    among: Sequence[ReportedSystem],
    mode: Mode,
    *,
    names: Sequence[str] = (),
    beside: Dataset | None = None,
) -> Table:
    """One row a system, references apart; stars among all systems; the paper's rows below, where asked for."""
    known = {name: score for system in systems for name, score in _scores(system, mode).items()}
    columns = [Column(score, known[score]["direction"]) for score in (names or _in_order(known)) if score in known]
    rows = {system: _cells(system, among, mode, columns) for system in systems}
    human = [TableRow(system.name, cells, "aside") for system, cells in rows.items() if system.is_reference]
    ours = [TableRow(system.name, cells) for system, cells in rows.items() if not system.is_reference]
    blocks = [("", each) for each in (human, with_best(ours, columns)) if each]
    if mode == "paper":
        blocks += paper_block(name, columns, beside)
    starred = f" {STARS}" if any(cell.stars for row in ours for cell in row.cells) else ""
    return Table(name, title, _counted(systems, mode) + starred + few_note(blocks), columns, blocks)


def _cells(
    system: ReportedSystem, among: Sequence[ReportedSystem], mode: Mode, columns: Sequence[Column]
) -> list[Cell]:
    cells = score_cells(_scores(system, mode), columns, stars(system, among, mode))
    itself = Cell(tip="the references against themselves")
    pairs = zip(cells, columns, strict=True)
    return [itself if _against_itself(system, column.name) else cell for cell, column in pairs]


def _in_order(scores: Iterable[str]) -> list[str]:
    """The paper's order of columns, then whatever else there is."""
    return sorted(scores, key=lambda name: MAIN.index(name) if name in MAIN else len(MAIN))


def _against_itself(system: ReportedSystem, score: str) -> bool:
    return system.is_reference and score.startswith(NEEDS_REFERENCES)


def _scores(system: ReportedSystem, mode: Mode) -> dict[str, dict[str, Any]]:
    run = system.scored(mode)
    return {name: run.content["scores"][name] for name in run.content["names"]} if run else {}


def _counted(systems: Sequence[ReportedSystem], mode: Mode) -> str:
    """How many stories were scored: once where all had as many."""
    counts = {system.name: run.content["stories"] for system in systems if (run := system.scored(mode))}
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values())):,} stories each."
    return "Stories: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()) + "."


def comparison_section(systems: Sequence[ReportedSystem]) -> ReportSection | None:
    """A table for every run that compared two systems; None without any."""
    runs = [run for system in systems for run in system.runs if run.content.get("comparison")]
    tables = [_comparison_table(run, _other(run, systems)) for run in runs]
    return ReportSection("comparison", "Which differences are real", COMPARISON, tables) if tables else None


def _other(run: StageRun, systems: Sequence[ReportedSystem]) -> str:
    """The name of the system a run was compared with; where it is not among those reported, of its file."""
    against = run.files["against"]
    reported = [system.name for system in systems if against in system.story_files]
    if run.compared_with_references:
        reported.append("the references")
    files = [Path(name).name for name, hashed in run.manifest.get("inputs", {}).items() if hashed == against]
    return next(iter(reported + files), "another system")


def _comparison_table(run: StageRun, other: str) -> Table:
    kind = "discourse" if run.stage == DISCOURSE else run.kind
    columns = [Column(run.name), Column(other), Column("difference"), Column("p drawn"), Column("p t-test")]
    rows = [
        TableRow(Column(score, each["direction"]).heading, list(_comparison_cells(score, each)))
        for score, each in _compared(run)
    ]
    blocks = [("", rows)]
    note = f"{run.content['stories']:,} stories each, {kind} scores.{few_note(blocks)}"
    name = f"compare-{kind}-{stem(run.name)}-{stem(other)}"
    return Table(name, f"{run.name} against {other}", note, columns, blocks, corner="Score")


def _compared(run: StageRun) -> Iterator[tuple[str, dict[str, Any]]]:
    """The comparisons of a run in its order; against the references, only what needs none."""
    found = compared(run)
    for name in run.content["names"]:
        if name in found and not (run.compared_with_references and name.startswith(NEEDS_REFERENCES)):
            yield name, found[name]


def _comparison_cells(name: str, each: dict[str, Any]) -> Iterator[Cell]:
    yield from (score_cell(name, each[side]) for side in ("a", "b"))
    yield Cell(number(each["difference"], each["unit"]), each["difference"], *interval_of(each))
    yield _p(each["p_bootstrap"])
    yield replace(_p(each["p_t_test"], each["stars"], f"t-test {T_TESTS[each['t_test']]}"), thin=each["thin"])


def _p(value: float | None, stars: str = "", tip: str = "") -> Cell:
    if value is None:
        return Cell(tip=tip)
    return Cell(f"{value:.3f}" if value >= 0.001 else "< 0.001", value, stars=stars, tip=tip)
