"""Scores as cells of tables: how a number is printed, its interval, and when it earns a star."""

from collections.abc import Iterable, Mapping
from typing import Any

from discodvt.report.charts import Spread
from discodvt.report.few_pairs import few_pairs
from discodvt.report.runs import Run
from discodvt.report.tables import Cell

DECIMALS = {"tokens": 1, "nats per token": 3, "perplexity": 1, "ratio": 3}
NEEDS_REFERENCES = ("B-", "rB-", "MSJ", "BLEU", "rBLEU", "MAUVE", "length-ref")  # names of scores, by their beginning


def number(value: float, unit: str = "fraction") -> str:
    """A score as it is printed: fractions in percent, small divergences to four places, a minus as a minus."""
    decimals = 4 if unit == "bits" and abs(value) < 0.5 else DECIMALS.get(unit, 2)
    return f"{100 * value if unit == 'fraction' else value:z.{decimals}f}".replace("-", "−")


def score_cell(name: str, score: Mapping[str, Any], stars: str = "") -> Cell:
    """A score with its interval; its count and signature on pointing."""
    interval, ends = interval_of(score)
    spread = f"95% interval {interval[0]} to {interval[1]}" if interval else "no interval"
    value = number(score["value"], score["unit"])
    unit = "" if score["unit"] == "fraction" else f" {score['unit']}"
    tip = f"{name} {value}{unit}, {spread}, n {score['n']:,}\n{score['signature']}"
    return Cell(value, score["value"], interval, ends, stars, tip=tip)


def interval_of(score: Mapping[str, Any]) -> tuple[tuple[str, str] | None, tuple[float, float] | None]:
    """A score's interval as it is printed, and as it is."""
    if score["low"] is None:
        return None, None
    return (number(score["low"], score["unit"]), number(score["high"], score["unit"])), (score["low"], score["high"])


def in_percent(score: Mapping[str, Any]) -> Spread:
    """A fraction and its interval as figures show them."""
    low, high = (None if score[end] is None else 100 * score[end] for end in ("low", "high"))
    return 100 * score["value"], low, high


def compared(run: Run) -> dict[str, dict[str, Any]]:
    """The comparisons of a run by score, without the stars of accuracies that rest on a handful of pairs."""
    found = run.content.get("comparison") or {}
    sides = [{name: each[side] for name, each in found.items()} for side in ("a", "b")]
    few = {name for name in found if any(few_pairs(name, scores) for scores in sides)}
    return {name: each | ({"stars": ""} if name in few else {}) | {"thin": name in few} for name, each in found.items()}


def stars(runs: Iterable[Run]) -> dict[str, str]:
    """Stars where a system is better than all it was compared with: the fewest of its comparisons."""
    fewest: dict[str, str] = {}
    for run in runs:
        if run.compared_with_references:
            continue  # no system competes with the references
        for name, each in compared(run).items():
            better = each["difference"] * {"higher": 1, "lower": -1, "none": 0}[each["direction"]] > 0
            fewest[name] = min(fewest.get(name, "**"), each["stars"] if better else "", key=len)
    return fewest
