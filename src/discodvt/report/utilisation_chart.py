"""Code utilisation of several runs, as distributions over stories (the paper's figure on the number of CNN layers)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discodvt.report.charts import colours_of, distributions


def write_utilisation_chart(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """A curve for each measured run (the content of its `figures.json`); PNG, SVG or PDF by the suffix of `path`."""
    spreads = {_label(run["model"]): run["usage"]["utilisation"] for run in runs}
    drawing = distributions("utilisation", "", "", spreads, colours_of(list(spreads)), label="code utilisation")
    if path.suffix == ".svg":
        path.write_text(drawing.svg(), encoding="utf-8")
    else:
        path.write_bytes(drawing.pdf() if path.suffix == ".pdf" else drawing.png())


def _label(model: dict[str, Any]) -> str:
    layers = model["conv_layers"]
    return f"{layers} CNN {'layer' if layers == 1 else 'layers'} ({model['name']})"
