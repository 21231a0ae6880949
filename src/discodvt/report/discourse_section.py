"""The discourse level in a report: accuracy by category and marker, shares of relations, entropy, KL divergence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from discodvt.discourse import CATEGORIES
from discodvt.report.charts import Colours, Spread, grouped_bars, pies
from discodvt.report.few_pairs import NOTE, few_pairs
from discodvt.report.paper import Dataset, paper_block
from discodvt.report.runs import Run, System
from discodvt.report.score_cells import in_percent, score_cell, stars
from discodvt.report.sections import Part, Section
from discodvt.report.tables import Cell, Column, Row, Table, with_best

Scores = Mapping[str, Mapping[str, Any]]
LEAD = (
    "Pairs of clauses joined by a discourse marker, taken from the stories: how well a classifier finds the marker "
    "that was taken out, and how often each relation is used."
)
ALL = "all"


def discourse_section(
    systems: Sequence[System], human: str, colours: Colours, dataset: Dataset | None
) -> Section | None:
    """All of the paper's discourse-level tables and figures; None without a run of `discourse score`."""
    runs = [system.discourse for system in systems if system.discourse and not system.discourse.is_reference]
    beside = [system.discourse for system in systems if system.discourse]
    if not beside:
        return None
    told: dict[str, Scores] = {human: beside[0].content["human"]["scores"]}
    told |= {run.name: run.content["scores"] for run in runs}
    parts: list[Part] = [
        _accuracy(told, runs, human, beside[0].content["human"]),
        _category_bars(told, colours),
        _markers(told, runs, human, dataset),
        _shares(told, runs, human, dataset),
        pies("relations", "Relations", "Shares of the four categories.", _category_shares(told)),
        _marker_bars(told, colours),
    ]
    if runs:
        parts.insert(4, _divergence(told, runs, dataset))
    return Section("discourse", "Discourse level", LEAD, parts)


def _accuracy(told: Mapping[str, Scores], runs: Sequence[Run], human: str, people: Mapping[str, Any]) -> Table:
    """Macro-accuracy by category and over all markers, beside always saying the most frequent one."""
    columns = [Column(category, "higher") for category in (*CATEGORIES, ALL)]
    names = {category: f"accuracy-{category}" for category in CATEGORIES} | {ALL: "accuracy"}
    blocks = _blocks(told, runs, human, columns, names)
    blocks += [("", rows) for rows in [_constant(runs, columns, names)] if rows]
    held = {human: people} | {run.name: run.content for run in runs}
    counts = ", ".join(f"{name} {each['n_pairs']:,} in {each['stories']:,} stories" for name, each in held.items())
    note = f"Mean over the markers of a category, in percent. Marker pairs: {counts}.{_marked(blocks)}"
    return Table("accuracy", "Macro-accuracy by category", note, columns, blocks)


def _constant(runs: Sequence[Run], columns: Sequence[Column], names: Mapping[str, str]) -> list[Row]:
    """What always saying the most frequent marker gets: one row where it is the same for all."""
    found = {run.name: run.content["baseline"] for run in runs}
    alike = all(baseline == next(iter(found.values())) for baseline in found.values())
    rows = []
    for system, baseline in list(found.items())[: 1 if alike else None]:
        cells = [_plain(baseline["scores"].get(names[column.name])) for column in columns]
        label = f"always “{baseline['marker']}”" + ("" if alike else f" ({system})")
        rows.append(Row(label, cells, "aside"))
    return rows


def _markers(told: Mapping[str, Scores], runs: Sequence[Run], human: str, dataset: Dataset | None) -> Table:
    columns = [Column(marker, "higher", category) for category, markers in CATEGORIES.items() for marker in markers]
    names = {column.name: f"accuracy-{column.name}" for column in columns}
    blocks = _blocks(told, runs, human, columns, names) + paper_block("markers", columns, dataset)
    note = f"In percent; a dash where the stories have none.{_marked(blocks)}"
    return Table("markers", "Accuracy by marker", note, columns, blocks)


def _shares(told: Mapping[str, Scores], runs: Sequence[Run], human: str, dataset: Dataset | None) -> Table:
    columns = [*(Column(category) for category in CATEGORIES), Column("entropy", "higher")]
    names = {category: f"share-{category}" for category in CATEGORIES} | {"entropy": "entropy"}
    blocks = _blocks(told, runs, human, columns, names) + paper_block("shares", columns, dataset)
    note = "Share of each category among marker pairs, in percent, and the entropy of the four shares in bits."
    return Table("shares", "Shares of relations", note, columns, blocks)


def _divergence(told: Mapping[str, Scores], runs: Sequence[Run], dataset: Dataset | None) -> Table:
    columns = [Column("KL", "lower")]
    rows = [Row(run.name, _cells(told[run.name], columns, {"KL": "KL"}, stars([run]))) for run in runs]
    blocks = [("", with_best(rows, columns)), *paper_block("kl", columns, dataset)]
    note = "KL(human || system) over the four categories, in bits."
    return Table("kl", "Divergence from human relations", note, columns, blocks)


def _blocks(
    told: Mapping[str, Scores], runs: Sequence[Run], human: str, columns: Sequence[Column], names: Mapping[str, str]
) -> list[tuple[str, list[Row]]]:
    """The human row apart, then one row a system."""
    ours = [Row(run.name, _cells(told[run.name], columns, names, stars([run]))) for run in runs]
    aside = [Row(human, _cells(told[human], columns, names, {}), "aside")]
    return [("", rows) for rows in (aside, with_best(ours, columns)) if rows]


def _cells(
    scores: Scores, columns: Sequence[Column], names: Mapping[str, str], starred: Mapping[str, str]
) -> list[Cell]:
    cells = []
    for column in columns:
        name = names[column.name]
        if name in scores:
            cell = score_cell(column.name, scores[name], starred.get(name, ""))
            cells.append(replace(cell, thin=few_pairs(name, scores)))
        else:
            cells.append(Cell())
    return cells


def _marked(blocks: Sequence[tuple[str, Sequence[Row]]]) -> str:
    return f" {NOTE}" if any(cell.thin for _, rows in blocks for row in rows for cell in row.cells) else ""


def _plain(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{100 * value:.2f}", value)


def _category_bars(told: Mapping[str, Scores], colours: Colours) -> Part:
    names = [f"accuracy-{category}" for category in CATEGORIES]
    series = {system: list(_spreads(scores, names)) for system, scores in told.items()}
    title, note = "Macro-accuracy by category", "How often the classifier finds the marker that was taken out."
    return grouped_bars("accuracy", title, note, list(CATEGORIES), series, colours, unit="%")


def _marker_bars(told: Mapping[str, Scores], colours: Colours) -> Part:
    markers = [marker for members in CATEGORIES.values() for marker in members]
    names = [f"share-{marker}" for marker in markers]
    series = {system: list(_spreads(scores, names)) for system, scores in told.items()}
    return grouped_bars("markers", "Markers", "Share of each marker among all.", markers, series, colours, unit="%")


def _spreads(scores: Scores, names: Sequence[str]) -> Iterator[Spread | None]:
    return (in_percent(scores[name]) if name in scores else None for name in names)


def _category_shares(told: Mapping[str, Scores]) -> dict[str, dict[str, float]]:
    return {
        system: {category: scores[f"share-{category}"]["value"] for category in CATEGORIES}
        for system, scores in told.items()
    }
