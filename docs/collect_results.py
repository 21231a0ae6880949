"""Take the scores of a grid that was run into docs/results/NAME.json; `make_results.py --collect` calls it.

Of each system it takes the most seeds that were evaluated together; what is not finished is left out and counted.
"""

import json
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from discodvt.experiments.grid import Grid, read_grid
from discodvt.experiments.grid_plan import make_plan
from discodvt.experiments.grid_report import all_scores
from discodvt.experiments.grid_steps import Plan, Row

FILES = Path(__file__).parent / "results"
RELATIONS = ("entropy", "KL", "accuracy")  # and shares

Entry = dict[str, Any]


def collect(name: str, grid: str, out: Path) -> Path:
    """Write docs/results/NAME.json."""
    asked = read_grid(grid)
    parts = [asked.with_seeds(seeds) for seeds in _prefixes(asked)]
    plans = [make_plan(part, out) for part in parts]
    found: dict[str, Entry] = {}
    for corpus in asked.evaluated:
        for plan in plans:  # all seeds first
            rows = [row for row in plan.rows if row.corpus == corpus]
            for system, entry in all_scores(plan, rows).items():
                if system not in found and _compared(plan, entry, system):
                    row = next(row for row in rows if row.system == system)
                    more = {"words": _words(row), "commands": _commands(row, out), "corpus": corpus}
                    found[system] = _small(entry) | more
    content = {
        "grid": Path(grid).as_posix(),
        "title": asked.title,
        "main": asked.main,
        "seeds": {system: settings.seeds or asked.seeds for system, settings in asked.systems.items()},
        "prompts": {name: corpus.prompts for name, corpus in asked.corpora.items()},
        "steps": _progress(plans[0]),
        "systems": {system: found[system] for system in asked.systems if system in found},
    }
    FILES.mkdir(exist_ok=True)
    target = FILES / f"{name}.json"
    target.write_text(_printed(content) + "\n", encoding="utf-8")
    return target


def _printed(content: Entry) -> str:
    """JSON with a line for each system."""
    systems = ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content["systems"].items())
    rest = json.dumps({key: value for key, value in content.items() if key != "systems"}, indent=1)
    return f'{rest[:-2]},\n "systems": {{\n{systems}\n }}\n}}'


def _prefixes(grid: Grid) -> list[list[int]]:
    return [grid.seeds[:count] for count in range(len(grid.seeds), 0, -1)]


def _compared(plan: Plan, entry: Entry, system: str) -> bool:
    """Whether a row is whole: with its comparison, where there is something to compare with."""
    return "compared" in entry or system == plan.grid.main or plan.grid.main is None


def _small(entry: Entry) -> Entry:
    """Values and intervals alone."""

    def numbers(score: Entry, *names: str) -> Entry:
        return {name: None if score[name] is None else round(score[name], 6) for name in names}

    kept: Entry = {"seeds": entry["seeds"], "stories": entry["stories"]}
    if entry.get("utilisation"):
        kept["utilisation"] = [
            round(part, 4) for part in (entry["utilisation"]["mean"], *entry["utilisation"]["quartiles"])
        ]
    for key in ("paper", "discourse"):
        if key in entry:
            known = {
                name: score
                for name, score in entry[key].items()
                if key == "paper" or name in RELATIONS or name.startswith("share-")
            }
            kept[key] = {name: numbers(score, "value", "low", "high") for name, score in known.items()}
    if entry.get("compared"):
        kept["compared"] = {
            name: numbers(score, "difference", "low", "high") for name, score in entry["compared"].items()
        }
    kept["training"] = [
        {key: round(value, 6) if isinstance(value, float) else value for key, value in each.items()}
        for each in entry["training"]
    ]
    return kept


def _words(row: Row) -> dict[str, list[float]]:
    """Mean words of a story and of its reference with 95% intervals, of the first seed."""
    lines = (row.scores.output / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    found = {}
    for side in ("story", "reference"):
        counts = [len(json.loads(line)[side].split()) for line in lines]
        mean, half = fmean(counts), 1.96 * stdev(counts) / len(counts) ** 0.5
        found[side] = [round(number, 1) for number in (mean, mean - half, mean + half)]
    return found


def _commands(row: Row, out: Path) -> list[str]:
    steps = [row.scores, *([row.discourse] if row.discourse is not None and row.discourse.done else [])]
    return [" ".join(["discodvt", *step.command]).replace(f"{out.absolute()}/", "") for step in steps]


def _progress(plan: Plan) -> dict[str, list[int]]:
    """Steps done and all steps, of each system."""
    return {row.system: [sum(step.done for step in row.steps), len(row.steps)] for row in plan.rows}
