"""Code utilisation of several runs, as distributions over stories (the paper's figure on the number of CNN layers)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_utilisation_chart(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """A line for each measured run (the content of its `figures.json`); PNG, SVG or PDF by the suffix of `path`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    for run in sorted(runs, key=lambda run: int(run["model"]["conv_layers"])):
        spread, model = run["usage"]["utilisation"], run["model"]
        bins = spread["bins"]
        middles = [(number + 0.5) / len(bins) for number in range(len(bins))]
        label = f"{model['conv_layers']} layers ({model['name']}), mean {spread['mean']:.2f}"
        axes.plot(middles, [100 * share for share in bins], marker="o", markersize=3, label=label)
    axes.set_xlabel("code utilisation of a story")
    axes.set_ylabel("% of stories")
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
