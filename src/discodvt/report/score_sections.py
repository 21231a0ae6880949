"""Metrics in a report: the paper's main table with stars, its ablation, and modern scores."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from discodvt.evaluation.scores import Mode
from discodvt.report.charts import Colours, Spread, intervals
from discodvt.report.paper import Dataset, paper_block
from discodvt.report.runs import System
from discodvt.report.score_cells import NEEDS_REFERENCES, in_percent, score_cell, stars
from discodvt.report.sections import Part, Section
from discodvt.report.tables import Cell, Column, Row, Table, with_best

MAIN = ("B-1", "B-2", "BLEU", "MSJ-2", "MSJ-3", "rB-1", "rB-2", "rBLEU", "D-4", "D-5", "rep-8", "rep-16")  # its Table 2
ABLATION = ("B-1", "MSJ-2", "D-4", "rep-8")  # its Table 3
STARS = "* p < 0.05, ** p < 0.01 in the t-test, against every system compared with."


def score_sections(systems: Sequence[System], colours: Colours, dataset: Dataset | None) -> Iterator[Section]:
    """Main results, ablation and modern scores, each where there is something to show."""
    scored = [system for system in systems if system.scored("paper")]
    whole = [system for system in scored if system.ablation_of is None]
    if whole:
        yield _main(whole, colours, dataset)
    if len(whole) < len(scored):
        yield _ablation(scored, dataset)
    modern = [system for system in systems if system.scored("modern")]
    if modern:
        table = _table("modern", "Modern scores", modern, "modern")
        lead = "Corpus BLEU by sacrebleu, distinct corrected for length, lengths and endings."
        yield Section("modern", "Modern scores", lead, [table])


def _main(systems: Sequence[System], colours: Colours, dataset: Dataset | None) -> Section:
    table = _table("main", "Main results", systems, "paper", beside=dataset)
    parts: list[Part] = [table]
    if len(systems) > 1:
        spreads: dict[str, dict[str, Spread]] = {column.name: {} for column in table.columns}
        for system in systems:
            for name, score in _scores(system, "paper").items():
                if not _against_itself(system, name):
                    spreads[name][system.name] = in_percent(score)
        note = "The same numbers with their 95% intervals."
        parts.append(intervals("main", "Main results with intervals", note, spreads, colours, columns=5))
    lead = (
        "Stories against references: overlap (BLEU, MS-Jaccard), recall (reverse BLEU), diversity (distinct) and "
        "repetition, in percent, as the paper defines them."
    )
    return Section("main", "Main results", lead, parts)


def _ablation(systems: Sequence[System], dataset: Dataset | None) -> Section:
    shown = [system for system in systems if system.ablation_of or any(s.ablation_of == system.name for s in systems)]
    table = _table("ablation", "Ablation", shown, "paper", names=ABLATION, beside=dataset)
    return Section("ablation", "Ablation", "What each part of the training is worth.", [table])


def _table(
    name: str,
    title: str,
    systems: Sequence[System],
    mode: Mode,
    *,
    names: Sequence[str] = (),
    beside: Dataset | None = None,
) -> Table:
    """One row a system, references apart; the paper's rows below, where asked for."""
    known = {name: score for system in systems for name, score in _scores(system, mode).items()}
    columns = [Column(score, known[score]["direction"]) for score in (names or _in_order(known)) if score in known]
    human: list[Row] = []
    ours: list[Row] = []
    for system in systems:
        cells = _cells(system, mode, columns)
        if system.is_reference:
            human.append(Row(system.name, cells, "aside"))
        else:
            ours.append(Row(system.name, cells))
    blocks = [("", rows) for rows in (human, with_best(ours, columns)) if rows]
    if mode == "paper":
        blocks += paper_block(name, columns, beside)
    starred = any(cell.stars for row in ours for cell in row.cells)
    return Table(name, title, f"{_counted(systems, mode)} {STARS if starred else ''}".strip(), columns, blocks)


def _cells(system: System, mode: Mode, columns: Sequence[Column]) -> list[Cell]:
    scores = _scores(system, mode)
    starred = stars(run for run in system.evaluations if run.config["mode"] == mode)
    cells = []
    for column in columns:
        if _against_itself(system, column.name):
            cells.append(Cell(tip="the references against themselves"))
        elif column.name in scores:
            cells.append(score_cell(column.name, scores[column.name], starred.get(column.name, "")))
        else:
            cells.append(Cell())
    return cells


def _in_order(scores: Iterable[str]) -> list[str]:
    """The paper's order of columns, then whatever else there is."""
    return sorted(scores, key=lambda name: MAIN.index(name) if name in MAIN else len(MAIN))


def _against_itself(system: System, score: str) -> bool:
    return system.is_reference and score.startswith(NEEDS_REFERENCES)


def _scores(system: System, mode: Mode) -> dict[str, dict[str, Any]]:
    run = system.scored(mode)
    return {name: run.content["scores"][name] for name in run.content["names"]} if run else {}


def _counted(systems: Sequence[System], mode: Mode) -> str:
    """How many stories were scored: once where all had as many."""
    counts = {system.name: run.content["stories"] for system in systems if (run := system.scored(mode))}
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values())):,} stories each."
    return "Stories: " + ", ".join(f"{name} {count:,}" for name, count in counts.items()) + "."
