"""The discourse level in a report: accuracy by category and marker, shares of relations, entropy, KL divergence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from discodvt.discourse import CATEGORIES
from discodvt.report.charts import Colors, grouped_bars, pies
from discodvt.report.pages import Part, ReportSection
from discodvt.report.score_cells import Dataset, few_note, in_percent, paper_block, score_cells, stars
from discodvt.report.systems import DISCOURSE, ReportedSystem, StageRun
from discodvt.report.table import Cell, Column, Table, TableRow, with_best

Scores: TypeAlias = Mapping[str, Mapping[str, Any]]
LEAD = (
    "Pairs of clauses joined by a discourse marker, taken from the stories: how well a classifier finds the marker "
    "that was taken out, and how often each relation is used."
)
ALL = "all"


@dataclass(frozen=True, slots=True)
class DiscourseResults:
    """The discourse runs of a report: scores by system, the human ones first, and their stars."""

    human: str
    runs: Sequence[StageRun]
    scores: Mapping[str, Scores]
    stars: Mapping[str, Mapping[str, str]]


def discourse_section(
    systems: Sequence[ReportedSystem], human: str, colors: Colors, dataset: Dataset | None
) -> ReportSection | None:
    """All of the paper's discourse-level tables and figures; None without a run of `discourse score`."""
    beside = [run for system in systems if (run := system.run_of(DISCOURSE))]
    if not beside:
        return None
    runs = [run for run in beside if not run.is_reference]
    people = beside[0].content["human"]
    scores = {human: people["scores"]} | {run.name: run.content["scores"] for run in runs}
    results = DiscourseResults(
        human, runs, scores, {system.name: stars(system, systems, DISCOURSE) for system in systems}
    )
    shares = {
        name: {category: held[f"share-{category}"]["value"] for category in CATEGORIES} for name, held in scores.items()
    }
    parts: list[Part] = [
        _accuracy(results, people),
        _bars(results, colors, "accuracy", "accuracy", list(CATEGORIES)),
        _markers(results, dataset),
        _shares(results, dataset),
        *([_divergence(results, dataset)] if runs else []),
        pies("relations", "Relations", "Shares of the four categories.", shares),
        _bars(results, colors, "markers", "share", [marker for held in CATEGORIES.values() for marker in held]),
    ]
    return ReportSection("discourse", "Discourse level", LEAD, parts)


def _accuracy(results: DiscourseResults, people: Mapping[str, Any]) -> Table:
    """Macro-accuracy by category and over all markers, beside always saying the most frequent one."""
    names = {category: f"accuracy-{category}" for category in CATEGORIES} | {ALL: "accuracy"}
    other = [category for category, name in names.items() if not _comparable(results, name)]
    columns = [Column(category, "none" if category in other else "higher") for category in names]
    blocks = _blocks(results, columns, names)
    blocks += [("", rows) for rows in [_constant(results.runs, columns, names)] if rows]
    held = {results.human: people} | {run.name: run.content for run in results.runs}
    counts = ", ".join(f"{name} {each['n_pairs']:,} in {each['stories']:,} stories" for name, each in held.items())
    unlike = f" Not ranked, since not all systems use the same markers: {', '.join(other)}." if other else ""
    note = f"Mean over the markers of a category, in percent. Marker pairs: {counts}.{unlike}{few_note(blocks)}"
    return Table("accuracy", "Macro-accuracy by category", note, columns, blocks)


def _comparable(results: DiscourseResults, name: str) -> bool:
    """Whether a mean is over the same markers in all systems: who never writes a hard marker has it easier."""
    held = (scores[name] for system, scores in results.scores.items() if system != results.human and name in scores)
    return len({score["signature"].split("|")[0] for score in held}) <= 1


def _constant(runs: Sequence[StageRun], columns: Sequence[Column], names: Mapping[str, str]) -> list[TableRow]:
    """What always saying the most frequent marker gets: one row where it is the same for all."""
    found = {run.name: run.content["baseline"] for run in runs}
    alike = all(baseline == next(iter(found.values())) for baseline in found.values())
    rows = []
    for system, baseline in list(found.items())[: 1 if alike else None]:
        cells = [_plain(baseline["scores"].get(names[column.name])) for column in columns]
        label = f"always “{baseline['marker']}”" + ("" if alike else f" ({system})")
        rows.append(TableRow(label, cells, "aside"))
    return rows


def _markers(results: DiscourseResults, dataset: Dataset | None) -> Table:
    columns = [Column(marker, "higher", category) for category, markers in CATEGORIES.items() for marker in markers]
    names = {column.name: f"accuracy-{column.name}" for column in columns}
    blocks = _blocks(results, columns, names) + paper_block("markers", columns, dataset)
    note = f"In percent; a dash where the stories have none.{few_note(blocks)}"
    return Table("markers", "Accuracy by marker", note, columns, blocks)


def _shares(results: DiscourseResults, dataset: Dataset | None) -> Table:
    columns = [*(Column(category) for category in CATEGORIES), Column("entropy", "higher")]
    names = {category: f"share-{category}" for category in CATEGORIES} | {"entropy": "entropy"}
    blocks = _blocks(results, columns, names) + paper_block("shares", columns, dataset)
    note = "Share of each category among marker pairs, in percent, and the entropy of the four shares in bits."
    return Table("shares", "Shares of relations", note, columns, blocks)


def _divergence(results: DiscourseResults, dataset: Dataset | None) -> Table:
    columns = [Column("KL", "lower")]
    blocks = _blocks(results, columns, {"KL": "KL"})[1:]  # of the systems only
    note = "KL(human || system) over the four categories, in bits."
    return Table("kl", "Divergence from human relations", note, columns, blocks + paper_block("kl", columns, dataset))


def _blocks(
    results: DiscourseResults, columns: Sequence[Column], names: Mapping[str, str]
) -> list[tuple[str, list[TableRow]]]:
    """The human row apart, then one row a system."""
    rows = {
        name: score_cells(scores, columns, results.stars.get(name, {}), names)
        for name, scores in results.scores.items()
    }
    aside = [TableRow(results.human, rows.pop(results.human), "aside")]
    ours = with_best([TableRow(name, cells) for name, cells in rows.items()], columns)
    return [("", block) for block in (aside, ours) if block]


def _plain(value: float | None) -> Cell:
    return Cell() if value is None else Cell(f"{100 * value:.2f}", value)


BARS = {
    "accuracy": ("Macro-accuracy by category", "How often the classifier finds the marker that was taken out."),
    "markers": ("Markers", "Share of each marker among all."),
}


def _bars(results: DiscourseResults, colors: Colors, figure: str, kind: str, groups: Sequence[str]) -> Part:
    """Scores `kind`-GROUP of every system side by side."""
    names = [f"{kind}-{group}" for group in groups]
    series = {
        system: [in_percent(scores[name]) if name in scores else None for name in names]
        for system, scores in results.scores.items()
    }
    return grouped_bars(figure, *BARS[figure], groups, series, colors, unit="%")
