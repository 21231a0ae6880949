"""Scores as cells of tables: how a number is printed, when it earns a star, which rest on too little; the paper's own.

The paper's numbers (`paper_tables.json`) are put beside ours at paper scale, and are always named as the paper's. An
accuracy rests on too little where one of its markers has a handful of pairs: one pair makes an accuracy of 0 or 100%
with no spread at all, so an interval of no width and a certain t-test. A macro-accuracy weighs its markers alike, so
its rarest marker decides. The signature of an accuracy has the number of pairs.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from discodvt.discourse import CATEGORIES, MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.metric import FEWEST
from discodvt.report.charts import Spread
from discodvt.report.systems import ReportedSystem, StageRun
from discodvt.report.table import Cell, Column, TableRow

Dataset: TypeAlias = Literal["wikiplots", "writingprompts"]
DATASETS = {"wikiplots": "Wikiplots", "writingprompts": "WritingPrompts"}
IN_BITS = ("entropy", "KL")  # the rest of the paper's numbers is in percent
PAPER_STORIES = 1000  # the paper scores stories to this many prompts
DECIMALS = {"tokens": 1, "nats per token": 3, "perplexity": 1, "ratio": 3}
NEEDS_REFERENCES = ("B-", "rB-", "MSJ", "BLEU", "rBLEU", "MAUVE", "length-ref")  # names of scores, by their beginning
TOO_FEW = f"† fewer than {FEWEST} n-grams, or pairs of some marker: neither best nor starred."


def number(value: float, unit: str = "fraction") -> str:
    """A score as it is printed: fractions in percent, small divergences to four places, a minus as a minus."""
    decimals = 4 if unit == "bits" and abs(value) < 0.5 else DECIMALS.get(unit, 2)
    return f"{100 * value if unit == 'fraction' else value:z.{decimals}f}".replace("-", "−")


def score_cell(name: str, score: Mapping[str, Any], stars: str = "", *, thin: bool = False) -> Cell:
    """A score with its interval; its count and signature as a tooltip, and what it has too little of."""
    interval, ends = interval_of(score)
    spread = f"95% interval {interval[0]} to {interval[1]}" if interval else "no interval"
    value = number(score["value"], score["unit"])
    unit = "" if score["unit"] == "fraction" else f" {score['unit']}"
    few = f"too few: {score['too_few']}\n" if "too_few" in score else ""
    tip = f"{name} {value}{unit}, {spread}, n {score['n']:,}\n{few}{score['signature']}"
    return Cell(value, score["value"], interval, ends, stars, thin=thin, tip=tip)


def score_cells(
    scores: Mapping[str, Mapping[str, Any]],
    columns: Sequence[Column],
    starred: Mapping[str, str],
    names: Mapping[str, str] = MappingProxyType({}),
) -> list[Cell]:
    """A cell for each column, of the score it is named after or `names` has for it; empty where there is none."""
    cells = []
    for column in columns:
        name = names.get(column.name, column.name)
        known = name in scores
        thin = known and rests_on_few(name, scores)
        cells.append(score_cell(column.name, scores[name], starred.get(name, ""), thin=thin) if known else Cell())
    return cells


def few_note(blocks: Sequence[tuple[str, Sequence[TableRow]]]) -> str:
    """What a table says of its scores that rest on too little, where it has any."""
    return f" {TOO_FEW}" if any(cell.thin for _, rows in blocks for row in rows for cell in row.cells) else ""


def interval_of(score: Mapping[str, Any]) -> tuple[tuple[str, str] | None, tuple[float, float] | None]:
    """A score's interval as it is printed, and as it is."""
    if score["low"] is None:
        return None, None
    return (number(score["low"], score["unit"]), number(score["high"], score["unit"])), (score["low"], score["high"])


def in_percent(score: Mapping[str, Any]) -> Spread:
    """A fraction and its interval as figures show them."""
    low, high = (None if score[end] is None else 100 * score[end] for end in ("low", "high"))
    return 100 * score["value"], low, high


def compared(run: StageRun) -> dict[str, dict[str, Any]]:
    """The comparisons of a run by score, without the stars of scores that rest on too little."""
    found = run.content.get("comparison") or {}
    sides = [{name: each[side] for name, each in found.items()} for side in ("a", "b")]
    few = {name for name in found if any(rests_on_few(name, scores) for scores in sides)}
    return {name: each | ({"stars": ""} if name in few else {}) | {"thin": name in few} for name, each in found.items()}


def stars(system: ReportedSystem, systems: Sequence[ReportedSystem], kind: str) -> dict[str, str]:
    """Stars where a system is better than all it was compared with, in its own runs of a kind or in theirs.

    A score has the fewest stars of all its comparisons; no system competes with the references.
    """
    fewest: dict[str, str] = {}
    for run, sign in _comparisons(system, systems, kind):
        for name, each in compared(run).items():
            better = sign * each["difference"] * {"higher": 1, "lower": -1, "none": 0}[each["direction"]] > 0
            fewest[name] = min(fewest.get(name, "**"), each["stars"] if better else "", key=len)
    return fewest


def _comparisons(
    system: ReportedSystem, systems: Sequence[ReportedSystem], kind: str
) -> Iterator[tuple[StageRun, int]]:
    """Runs that compared the system with another, and the sign of their differences as seen from it."""
    if system.is_reference:
        return
    for other in systems:
        for run in other.runs:
            if run.kind != kind or run.compared_with_references:
                continue
            if other is system:
                yield run, 1
            elif run.files.get("against") in system.story_files:
                yield run, -1


def rests_on_few(name: str, scores: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether `name` rests on too few n-grams or pairs; `scores` are all of its system.

    Scores say so themselves; of accuracies written by older versions the pairs are in the signatures.
    """
    if "too_few" in scores.get(name, {}):
        return True
    kind, _, of = name.partition("-")
    if kind != "accuracy":
        return False
    markers = CATEGORIES.get(of, (of,)) if of else MARKERS
    counts = (_pairs(scores[f"accuracy-{marker}"]) for marker in markers if f"accuracy-{marker}" in scores)
    return any(count is not None and count < FEWEST for count in counts)


def _pairs(score: Mapping[str, Any]) -> int | None:
    found = re.search(r"\|pairs:(\d+)", score["signature"])
    return int(found[1]) if found else None


def check_scale(systems: Sequence[ReportedSystem], dataset: Dataset) -> None:
    """The paper's numbers are put beside runs of its scale only: as many stories, scored as it scores."""
    scored = [run for system in systems if (run := system.scored("paper"))]
    if not scored:
        raise BadRequest(
            f"`paper` {dataset}: no run with scores in paper mode; add one of `discodvt evaluate`", "paper"
        )
    for run in scored:
        if run.content["stories"] < PAPER_STORIES:
            raise BadRequest(
                f"{run.directory}: {run.content['stories']} stories, the paper scores {PAPER_STORIES:,}; "
                "leave `paper` out, or score as many",
                "paper",
            )


def paper_block(table: str, columns: Sequence[Column], dataset: Dataset | None) -> list[tuple[str, list[TableRow]]]:
    """The paper's rows of a table under a heading that says so; none where they were not asked for or do not exist."""
    held = paper_tables()[table]
    if dataset is None or dataset not in held:
        return []
    stars = dict(zip(held["columns"], held.get("stars", {}).get(dataset, []), strict=False))
    tip = f"{paper_tables()['source']}, Table {held['table']}"
    rows = []
    for name, *printed in held[dataset]:
        known = dict(zip(held["columns"], printed, strict=True))
        cells = [
            Cell(
                known[column.name],
                float(known[column.name]) / (1 if column.name in IN_BITS else 100),
                stars=stars.get(column.name, "") if name == "DiscoDVT" else "",
                tip=tip,
            )
            if column.name in known
            else Cell()
            for column in columns
        ]
        rows.append(TableRow(name, cells, "paper"))
    return [(f"The paper's numbers ({DATASETS[dataset]}, its Table {held['table']})", rows)]


@cache
def paper_tables() -> dict[str, Any]:
    """The paper's tables, by what they show."""
    tables: dict[str, Any] = json.loads((files("discodvt.report") / "paper_tables.json").read_text(encoding="utf-8"))
    return tables
