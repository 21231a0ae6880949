"""Relation shares of an annotated corpus as a bar chart, by marker and category."""

from collections.abc import Mapping
from pathlib import Path

from discodvt.discourse import CATEGORIES, marker_of
from discodvt.report.annotation_view import COLOURS


def marker_shares(relations: Mapping[str, int]) -> dict[str, float]:
    """The share of each marker among the labelled neighbours (`unknown` left out); empty where there are none."""
    counts = {marker: 0 for markers in CATEGORIES.values() for marker in markers}
    for label, count in relations.items():
        marker = marker_of(label)
        if marker is not None:
            counts[marker] += count
    total = sum(counts.values())
    return {marker: count / total for marker, count in counts.items()} if total else {}


def write_relation_chart(relations: Mapping[str, int], path: Path, *, title: str) -> None:
    """Write the chart as PNG, SVG or PDF, by the suffix of `path`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shares = marker_shares(relations)
    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    for category, markers in CATEGORIES.items():
        heights = [100 * shares.get(marker, 0.0) for marker in markers]
        whole = sum(heights)
        bars = axes.bar(markers, heights, color=COLOURS[category], label=f"{category} {whole:.1f}%")
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
    axes.set_ylabel("% of labelled neighbours")
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
