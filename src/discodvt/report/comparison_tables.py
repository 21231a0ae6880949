"""Two systems beside each other, score by score, as the evaluation compared them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from discodvt.report.few_pairs import NOTE
from discodvt.report.runs import Run, System
from discodvt.report.score_cells import NEEDS_REFERENCES, compared, interval_of, number, score_cell
from discodvt.report.sections import Section
from discodvt.report.tables import Cell, Column, Row, Table, stem

LEAD = (
    "Differences between two systems on the same prompts. The interval is that of the difference; p drawn is the "
    "paired bootstrap's (random halves for pooled scores); p and stars of the t-test as in the paper."
)
PAIRED = {
    "story": "paired over stories, those of one prompt averaged",
    "fold": "over ten folds of prompts",
    "none": "none possible",
}


def comparison_section(systems: Sequence[System]) -> Section | None:
    """A table for every run that compared two systems; None without any."""
    runs = [run for system in systems for run in system.runs if run.content.get("comparison")]
    tables = [_table(run, _other(run, systems)) for run in runs]
    return Section("comparison", "Which differences are real", LEAD, tables) if tables else None


def _other(run: Run, systems: Sequence[System]) -> str:
    """The name of the system a run was compared with, where it is among those reported."""
    held = (system for system in systems if any(run.files["against"] == each for each in system.story_files))
    unnamed = "the references" if run.compared_with_references else "another system"
    return next((system.name for system in held), unnamed)


def _table(run: Run, other: str) -> Table:
    kind = "discourse" if run.stage == "discourse-score" else str(run.config["mode"])
    columns = [Column(run.name), Column(other), Column("difference"), Column("p drawn"), Column("p t-test")]
    shown = list(_compared(run))
    rows = [Row(Column(name, each["direction"]).heading, list(_cells(name, each))) for name, each in shown]
    note = f"{run.content['stories']:,} stories each, {kind} scores."
    note += f" {NOTE}" if any(each["thin"] for _, each in shown) else ""
    return Table(
        f"compare-{kind}-{stem(run.name)}-{stem(other)}",
        f"{run.name} against {other}",
        note,
        columns,
        [("", rows)],
        corner="Score",
    )


def _compared(run: Run) -> Iterator[tuple[str, dict[str, Any]]]:
    """The comparisons of a run in its order; against the references, only what needs none."""
    found = compared(run)
    for name in run.content["names"]:
        if name in found and not (run.compared_with_references and name.startswith(NEEDS_REFERENCES)):
            yield name, found[name]


def _cells(name: str, each: dict[str, Any]) -> Iterator[Cell]:
    yield from (score_cell(name, each[side]) for side in ("a", "b"))
    yield Cell(number(each["difference"], each["unit"]), each["difference"], *interval_of(each))
    yield _p(each["p_bootstrap"])
    yield replace(_p(each["p_t_test"], each["stars"], f"t-test {PAIRED[each['t_test']]}"), thin=each["thin"])


def _p(value: float | None, stars: str = "", tip: str = "") -> Cell:
    if value is None:
        return Cell(tip=tip)
    return Cell(f"{value:.3f}" if value >= 0.001 else "< 0.001", value, stars=stars, tip=tip)
