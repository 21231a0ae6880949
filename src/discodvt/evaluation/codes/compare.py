"""Measured runs side by side, such as models with different numbers of CNN layers (appendix A.1)."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discodvt.artefacts import read_manifest
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.measure import FIGURES, STAGE

COLUMNS = (
    "model",
    "conv_layers",
    "tokens_per_code",
    "codes",
    "codes_used",
    "code_perplexity",
    "nll",
    "swap_gap",
    "utilisation",
)


def read_measured(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """What `discodvt codes measure` left in each directory, by number of CNN layers; all of the same stories.

    Models that share a name are called after their directories.
    """
    runs, files = [], []
    for directory in directories:
        inputs = read_manifest(directory, STAGE)["inputs"]
        runs.append(json.loads((directory / FIGURES).read_text(encoding="utf-8")))
        files.append({file for name, file in inputs.items() if Path(name).name == f"{runs[-1]['split']}.parquet"})
    for directory, run, file in zip(directories, runs, files, strict=True):
        if (run["split"], run["stories"]) != (runs[0]["split"], runs[0]["stories"]):
            raise BadRequest(
                f"{directory}: measured on {run['stories']} {run['split']} stories, {directories[0]} on "
                f"{runs[0]['stories']} {runs[0]['split']} stories; compare runs measured on the same"
            )
        if file != files[0]:
            raise BadRequest(
                f"{directory}: measured on another {run['split']}.parquet than {directories[0]}; "
                "compare runs measured on the same stories"
            )
    names = Counter(run["model"]["name"] for run in runs)
    for directory, run in zip(directories, runs, strict=True):
        if names[run["model"]["name"]] > 1:
            run["model"]["name"] = str(directory)
    return sorted(runs, key=lambda run: int(run["model"]["conv_layers"]))


def comparison(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each run."""
    return [
        {
            "model": run["model"]["name"],
            "conv_layers": run["model"]["conv_layers"],
            "tokens_per_code": run["model"]["tokens_per_code"],
            "codes": run["model"]["codes"],
            "codes_used": run["usage"]["used"],
            "code_perplexity": run["usage"]["perplexity"],
            **{name: run["figures"][name]["value"] for name in ("nll", "swap_gap", "utilisation")},
        }
        for run in runs
    ]


def write_comparison(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """The rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
