"""What a search leaves for its reader: `search.json`, `trials.csv`, `best.toml` and `importance.svg`."""

import csv
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discodvt.experiments.search import TRIALS, Search, import_optuna, is_counted
from discodvt.experiments.space import with_values
from discodvt.report.drawing import Drawing, new_drawing
from discodvt.report.escaping import csv_text, figure_text
from discodvt.resumable import replacing, write_json
from discodvt.training.recipes import as_toml

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

RESULTS = "search.json"
BEST = "best.toml"
TABLE = "trials.csv"
IMPORTANCE = "importance.svg"
FEWEST = 4  # complete trials that can say anything about importance


def write_results(search: Search, *, called: Path | None = None) -> dict[str, Any]:
    """Write the results as they stand now, and return them; the same trials give the same files.

    `called`: what the user calls the directory of the search, where that is a mirror of it.
    """
    with search.lock:
        trials = [each for each in search.study.get_trials(deepcopy=False) if is_counted(each)]
        complete = [each for each in trials if each.state.name == "COMPLETE"]
        best = search.study.best_trial if complete else None
        importance = _importance(search) if len(complete) >= FEWEST else {}
        results = {
            "metric": search.base.validation.select_by,
            "asked_for": search.trials,
            "best": None if best is None else best.number,
            "trials": [_as_dict(each) for each in trials],
            "importance": importance,
        }
        write_json(search.out / RESULTS, results)
        with replacing(search.out / TABLE) as path:
            path.write_text(_table(search, trials), encoding="utf-8")
        if best is not None:
            recipe = with_values(search.recipe, search.overrides, best.params)
            recipe = recipe.model_copy(update={"out": (called or search.out) / "best"})
            comment = f"Trial {best.number}, the best of {len(complete)} by {results['metric']}: {best.value:.4f}"
            with replacing(search.out / BEST) as path:
                path.write_text(as_toml(recipe, comment), encoding="utf-8")
        if importance:
            with replacing(search.out / IMPORTANCE) as path:
                path.write_text(_drawing(importance, len(complete)).svg(), encoding="utf-8")
    return results


def _as_dict(trial: "FrozenTrial") -> dict[str, Any]:
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": trial.value if trial.state.name == "COMPLETE" else None,
        "values": trial.params,
        "validations": {str(step): value for step, value in sorted(trial.intermediate_values.items())},
        "error": trial.user_attrs.get("error"),
        "directory": f"{TRIALS}/{trial.number:04d}",
    }


def _table(search: Search, trials: "list[FrozenTrial]") -> str:
    """All trials, the best first."""
    sign = -1 if search.maximize else 1
    rows = sorted(map(_as_dict, trials), key=lambda row: (row["value"] is None, sign * (row["value"] or 0)))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["trial", "state", search.base.validation.select_by, *search.space.domains])
    for row in rows:
        values = [csv_text(str(row["values"].get(key, ""))) for key in search.space.domains]
        writer.writerow([row["trial"], row["state"], "" if row["value"] is None else repr(row["value"]), *values])
    return out.getvalue()


def _importance(search: Search) -> dict[str, float]:
    """How much of the differences between trials each key explains (PED-ANOVA, Watanabe et al. 2023)."""
    optuna = import_optuna()
    with warnings.catch_warnings():  # that it is new in Optuna, and that few trials say little
        warnings.simplefilter("ignore")
        found: dict[str, float] = optuna.importance.get_param_importances(
            search.study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
        )
    return found


def _drawing(importance: dict[str, float], trials: int) -> Drawing:
    title = "Importance of each key"
    note = f"Share of the differences between {trials} trials (PED-ANOVA)."
    drawing, (axes,) = new_drawing("importance", title, note, size=(6.0, 0.8 + 0.3 * len(importance)))
    for place, (key, share) in enumerate(reversed(importance.items())):
        (bar,) = axes.barh(place, 100 * share, color="#4477aa")
        drawing.add_tip(bar, f"{key}: {100 * share:.0f}%")
    axes.set_yticks(range(len(importance)), [figure_text(key) for key in reversed(importance)])
    axes.set_xlabel("%")
    axes.set_title(f"{title}. {note}", fontsize=9)
    return drawing
