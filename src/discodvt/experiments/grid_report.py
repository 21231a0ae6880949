"""The report of a grid: for each corpus the paper's tables and figures, over prompts and seeds, and how it was trained.

One page for each corpus and each name of `reports`, in `report/CORPUS/NAME/`, made by the report stage from the scores
of all rows that are complete. What is missing is named on the page. `scores.json` beside the pages has every score.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discodvt.artefacts import MANIFEST
from discodvt.experiments.grid_steps import Cell, Plan, Row
from discodvt.report.pages import ReportSection
from discodvt.report.report_stage import write_report
from discodvt.report.table import Cell as TableCell
from discodvt.report.table import Column, Table, TableRow
from discodvt.resumable import read_json, write_json

REPORT = "report"
SCORES = "scores.json"
FIGURES = {  # of a validation, as columns: the last stage of a chain that has one counts
    "reconstruction": "NLL",
    "swap_gap": "swap gap",
    "codes_used": "codes used",
    "code_perplexity": "code perplexity",
    "kl": "KL",
    "active_units": "active units",
    "mutual_information": "mutual information",
}
METHOD = (
    "Scores are means over the trainings of a system (seeds). Intervals are over prompts and seeds: each resample "
    "takes prompts, the same for all trainings, and draws trainings with replacement, their deviations widened by "
    "sqrt(S / (S - 1)) for S of them. A system of one training has an interval over prompts alone."
)


def write_grid_report(plan: Plan) -> list[Path]:
    """Write the reports of what is complete; returns their directories."""
    written = []
    for corpus in plan.grid.evaluated:
        rows = [row for row in plan.rows if row.corpus == corpus]
        for name in dict.fromkeys(name for row in rows for name in plan.grid.systems[row.system].reports):
            shown = [row for row in _in_order(plan, rows) if name in plan.grid.systems[row.system].reports]
            complete = [row for row in shown if row.scores.done]
            if complete:
                target = plan.out / REPORT / corpus / name
                _write(plan, corpus, name, shown, complete, target)
                written.append(target)
        write_json(plan.out / REPORT / corpus / SCORES, all_scores(plan, rows)) if written else None
    return written


def _in_order(plan: Plan, rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: list(plan.grid.systems).index(row.system))


def _write(plan: Plan, corpus: str, name: str, shown: Sequence[Row], complete: Sequence[Row], target: Path) -> None:
    requests = []
    for row in complete:
        cells = [step for cell in row.cells for step in (cell.study,) if step is not None]
        measured = [cell.measured for cell in row.cells if cell.measured is not None][:1]
        for step in (row.scores, row.compared, row.discourse, *cells, *measured):
            if step is not None and step.done:
                requests.append(f"{row.system}={step.output}")
    missing = [row.system for row in shown if not row.scores.done]
    title = f"{plan.grid.title or 'Grid'}: {corpus}" + ("" if name == "main" else f", {name}")
    write_report(requests, target, title=title, overwrite=True, more=[_training_section(complete, missing)])


def _training_section(rows: Sequence[Row], missing: Sequence[str]) -> ReportSection:
    figures = {row.system: [_trained(cell) for cell in row.cells] for row in rows}
    known = [name for name in FIGURES if any(name in each for cells in figures.values() for each in cells)]
    columns = [Column("seeds"), Column("steps"), Column("tokens seen"), *(Column(FIGURES[name]) for name in known)]
    table_rows = []
    for system, cells in figures.items():
        values = [TableCell(", ".join(str(each["seed"]) for each in cells))]
        values += [_mean([each[key] for each in cells], whole=True) for key in ("steps", "tokens")]
        values += [_mean([each[name] for each in cells if name in each]) for name in known]
        table_rows.append(TableRow(system, values))
    note = "Means over seeds, smallest to largest in brackets; steps and tokens of the whole chain of stages."
    table = Table("training", "Training", note, columns, [("", table_rows)])
    alarms = [
        f"{system}, seed {each['seed']}: {alarm}"
        for system, cells in figures.items()
        for each in cells
        for alarm in each["alarms"][-1:]
    ]
    lead = METHOD + (f" Not complete, and so not here: {', '.join(missing)}." if missing else "")
    lead += f" Alarms: {'; '.join(alarms)}." if alarms else ""
    return ReportSection("training", "How the systems were trained", lead, [table])


def _trained(cell: Cell) -> dict[str, Any]:
    """Steps and tokens of all trainings of a cell, and the validation figures of the last that has each."""
    found: dict[str, Any] = {"seed": cell.seed, "steps": 0, "tokens": 0, "alarms": [], "stages": []}
    for step in cell.trainings:
        facts = read_json(step.output / MANIFEST)["facts"] if step.kind == "train" else {}
        found["steps"] += facts.get("steps", 0)
        found["tokens"] += facts.get("tokens", 0)
        if step.recipe is not None:
            found["stages"].append([step.recipe.stage, facts.get("steps", 0), facts.get("tokens", 0)])
        found["alarms"] += facts.get("alarms", [])
        found |= {name: value for name, value in facts.get("validation", {}).items() if name in FIGURES}
    return found


def _mean(values: Sequence[float], *, whole: bool = False) -> TableCell:
    if not values:
        return TableCell()
    mean = sum(values) / len(values)

    def printed(value: float) -> str:
        return f"{value:,.0f}" if whole else f"{value:.3f}" if abs(value) < 10 else f"{value:.1f}"

    ends = (min(values), max(values))
    spread = ends[0] != ends[1]
    return TableCell(
        printed(mean), mean, (printed(ends[0]), printed(ends[1])) if spread else None, ends if spread else None
    )


def all_scores(plan: Plan, rows: Sequence[Row]) -> dict[str, Any]:
    """Every score of every complete row, for whoever makes other tables of them."""
    found: dict[str, Any] = {}
    for row in _in_order(plan, rows):
        if row.scores.done:
            entry: dict[str, Any] = {"seeds": [cell.seed for cell in row.cells]}
            for key, step, file in (
                ("paper", row.scores, "scores.json"),
                ("discourse", row.discourse, "discourse.json"),
                ("compared", row.compared, "scores.json"),
            ):
                if step is not None and step.done:
                    content = read_json(step.output / file)
                    entry[key] = content["comparison"] if key == "compared" else content["scores"]
                    entry["stories"] = content["stories"]
                    if key == "paper":
                        entry["utilisation"] = content["utilisation"]  # of the plans its stories were written from
            entry["training"] = [_trained(cell) for cell in row.cells]
            found[row.system] = entry
    return found
