"""The paper's own numbers (`paper_tables.json`), to stand beside ours at paper scale: always named as the paper's."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from discodvt.errors import BadRequest
from discodvt.report.runs import System
from discodvt.report.tables import Cell, Column, Row

Dataset: TypeAlias = Literal["wikiplots", "writingprompts"]
NAMES = {"wikiplots": "Wikiplots", "writingprompts": "WritingPrompts"}
IN_BITS = ("entropy", "KL")  # the rest is printed in percent
PROMPTS = 1000  # the paper scores stories to this many prompts


def check_scale(systems: Sequence[System], dataset: Dataset) -> None:
    """The paper's numbers stand beside runs of its scale only: as many stories, scored as it scores."""
    scored = [run for system in systems if (run := system.scored("paper"))]
    if not scored:
        raise BadRequest(f"--paper {dataset}: no run with scores in paper mode; add one of `discodvt evaluate`")
    for run in scored:
        if run.content["stories"] < PROMPTS:
            raise BadRequest(
                f"{run.directory}: {run.content['stories']} stories, the paper scores {PROMPTS:,}; "
                "leave --paper out, or score as many"
            )


def paper_block(table: str, columns: Sequence[Column], dataset: Dataset | None) -> list[tuple[str, list[Row]]]:
    """The paper's rows of a table under a heading that says so; none where they were not asked for or do not exist."""
    held = _tables()[table]
    if dataset is None or dataset not in held:
        return []
    stars = dict(zip(held["columns"], held.get("stars", {}).get(dataset, []), strict=False))
    tip = f"{_tables()['source']}, Table {held['table']}"
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
        rows.append(Row(name, cells, "paper"))
    return [(f"The paper's numbers ({NAMES[dataset]}, its Table {held['table']})", rows)]


@cache
def _tables() -> dict[str, Any]:
    tables: dict[str, Any] = json.loads((files("discodvt.report") / "paper_tables.json").read_text(encoding="utf-8"))
    return tables
