"""The figures of a report: grouped bars, pies, intervals, histograms; and two charts written as files of their own.

Those are the relation shares of an annotated corpus and the code utilisation of several models.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discodvt.discourse import CATEGORIES, marker_of
from discodvt.report.colors import CATEGORY_COLORS, FAINT, INK, SYSTEM_COLORS
from discodvt.report.drawing import Drawing, new_drawing
from discodvt.report.escaping import figure_text

if TYPE_CHECKING:
    from matplotlib.patches import Patch

Spread: TypeAlias = tuple[float, float | None, float | None]  # a value and its interval
Colors: TypeAlias = Mapping[str, str]
LETTER_POINTS = 6.0  # the width of a letter, in whichever font a page shows the figure
TICK_GAP = 8.0  # points between the labels of two ticks
LEGEND_MARK = 6  # letters as wide as the color and the gap of an entry
ROUND = (1, 2, 2.5, 5, 10)  # steps between ticks, times a power of ten
PIE_TITLE = 24  # letters above a pie


def system_colors(systems: Sequence[str]) -> Colors:
    """Each system's color, the same in all figures."""
    return {system: SYSTEM_COLORS[number % len(SYSTEM_COLORS)] for number, system in enumerate(systems)}


def grouped_bars(
    name: str,
    title: str,
    note: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Spread | None]],
    colors: Colors,
    *,
    unit: str,
) -> Drawing:
    """For each group one bar a series, with its interval."""
    drawing, (axes,) = new_drawing(name, title, note, size=(max(6.0, 0.8 * len(groups) + 1.5), 3.0))
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        for group, spread in enumerate(values):
            if spread is None:
                continue
            value, low, high = spread
            place = group - 0.4 + width * (number + 0.5)
            (bar,) = axes.bar(place, value, width * 0.92, color=colors[label])
            tip = f"{label}, {groups[group]}: {value:.1f}{unit}"
            if low is not None and high is not None:
                tip += f", 95% interval {low:.1f} to {high:.1f}"
                axes.plot([place, place], [low, high], color=INK, linewidth=0.9)
            drawing.add_tip(bar, tip)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    _legend(drawing, list(series), colors)
    return drawing


def pies(name: str, title: str, note: str, shares: Mapping[str, Mapping[str, float]]) -> Drawing:
    """One pie a system: the shares of the four categories."""
    columns = min(len(shares), 4)
    rows = -(-len(shares) // columns)
    drawing, panels = new_drawing(name, title, note, rows=rows, columns=columns, size=(1.9 * columns + 1.4, 2.1 * rows))
    for axes in panels:
        axes.set_axis_off()
    for axes, (label, parts) in zip(panels, shares.items(), strict=False):
        slices = [CATEGORY_COLORS[category] for category in parts]
        wedges = axes.pie(list(parts.values()), colors=slices, startangle=90, counterclock=False)[0]
        for wedge, (category, share) in zip(wedges, parts.items(), strict=True):
            drawing.add_tip(wedge, f"{label}: {category} {100 * share:.2f}%")
        axes.set_title(fill(figure_text(label), PIE_TITLE), fontsize=9)
    handles = [_patch(color, category) for category, color in CATEGORY_COLORS.items()]
    drawing.figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)
    return drawing


def intervals(
    name: str, title: str, note: str, scores: Mapping[str, Mapping[str, Spread]], colors: Colors, *, columns: int
) -> Drawing:
    """A panel for each score: every system's value with its interval, one below the other."""
    rows = -(-len(scores) // columns)
    systems = [system for system in colors if any(system in values for values in scores.values())]
    size = (8.6, rows * (0.55 + 0.24 * len(systems)))
    drawing, panels = new_drawing(name, title, note, rows=rows, columns=columns, size=size, sharey=True)
    room = (72 * size[0] - LETTER_POINTS * max(map(len, systems))) / columns - 2 * TICK_GAP  # of a panel, in points
    for axes in panels[len(scores) :]:
        axes.set_visible(False)
    for axes, (score, values) in zip(panels, scores.items(), strict=False):
        for place, system in enumerate(systems):
            if system not in values:
                continue
            value, low, high = values[system]
            color = colors[system]
            tip = f"{system}, {score}: {value:.2f}"
            if low is not None and high is not None:
                tip += f", 95% interval {low:.2f} to {high:.2f}"
                (line,) = axes.plot([low, high], [place, place], color=color, linewidth=2.2, solid_capstyle="round")
                drawing.add_tip(line, tip)
            (dot,) = axes.plot([value], [place], "o", color=color, markersize=5.5)
            drawing.add_tip(dot, tip)
        axes.set_title(score, fontsize=9, loc="left")
        axes.set_yticks(range(len(systems)), list(map(figure_text, systems)))
        axes.set_ylim(len(systems) - 0.4, -0.6)
        axes.margins(x=0.12)
        axes.set_xticks(*_few_ticks(*axes.get_xlim(), room))
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
    return drawing


def distributions(
    name: str, title: str, note: str, spreads: Mapping[str, Mapping[str, Any]], colors: Colors, *, label: str
) -> Drawing:
    """How values from 0 to 1 are spread over stories: {"bins", "mean"} of each system as a stepped curve."""
    drawing, (axes,) = new_drawing(name, title, note, size=(6.4, 2.8))
    for system, spread in spreads.items():
        color = colors[system]
        shares = [100 * share for share in spread["bins"]]
        width = 1 / len(shares)
        edges = np.linspace(0, 1, len(shares) + 1)
        bars = axes.bar(edges[:-1], shares, width, align="edge", color=color, alpha=0.28, linewidth=0)
        for bar, start, share in zip(bars, edges, shares, strict=False):
            if share:
                ends = f"between {start:.2f} and {start + width:.2f}"
                drawing.add_tip(bar, f"{system}: {share:.1f}% of the stories {ends}")
        axes.stairs(shares, edges, color=color, linewidth=1.4)
        (line,) = axes.plot([spread["mean"]] * 2, [0, max(shares)], color=color, linestyle="--", linewidth=1.2)
        drawing.add_tip(line, f"{system}: mean {spread['mean']:.3f}")
    axes.set_xlabel(label)
    axes.set_ylabel("% of stories")
    axes.set_xlim(0, 1)
    _legend(drawing, list(spreads), colors)
    return drawing


def _few_ticks(low: float, high: float, room: float) -> tuple[list[float], list[str]]:
    """Round numbers between two, two to four that have room for their labels (in points), and the labels."""
    from matplotlib.ticker import MaxNLocator

    for step, most in product((1, 2, 3), (4, 3, 2)):
        ticks = MaxNLocator(most, steps=ROUND).tick_values(low, high)
        places = [float(at) for at in ticks if low <= at <= high][::step]
        digits = next((n for n in range(10) if all(abs(round(at, n) - at) < 1e-9 * abs(high) for at in places)), 10)
        labels = [f"{place:z.{digits}f}".replace("-", "−") for place in places]
        if len(places) > 1:
            apart = room * (places[1] - places[0]) / (high - low)
            if apart > LETTER_POINTS * max(map(len, labels)) + TICK_GAP:
                return places, labels
    return places[:1], labels[:1]


def _legend(drawing: Drawing, systems: Sequence[str], colors: Colors) -> None:
    """The systems above a figure, in as many columns as its width has room for."""
    handles = [_patch(colors[system], system) for system in systems]
    room = 72 * drawing.figure.get_figwidth() / LETTER_POINTS  # letters
    for columns in range(min(len(systems), 5), 0, -1):
        rows = -(-len(systems) // columns)
        widths = [max(map(len, systems[at : at + rows])) + LEGEND_MARK for at in range(0, len(systems), rows)]
        if sum(widths) < room:
            break
    drawing.figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=9)


def _patch(color: str, label: str) -> "Patch":
    from matplotlib.patches import Patch

    return Patch(color=color, label=figure_text(label))


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
    """The relation shares of an annotated corpus by marker and category; PNG, SVG or PDF by the suffix of `path`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
    axes = figure.subplots()
    shares = marker_shares(relations)
    for category, markers in CATEGORIES.items():
        heights = [100 * shares.get(marker, 0.0) for marker in markers]
        label = f"{category} {sum(heights):.1f}%"
        bars = axes.bar(markers, heights, color=CATEGORY_COLORS[category], label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=1)
    axes.set_ylabel("% of labelled neighbours")
    axes.set_title(figure_text(title), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    content = BytesIO()
    kind = path.suffix.removeprefix(".")
    figure.savefig(content, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    path.write_bytes(content.getvalue())


def write_utilisation_chart(runs: Sequence[dict[str, Any]], path: Path) -> None:
    """A curve for each measured run (the content of its `figures.json`); PNG, SVG or PDF by the suffix of `path`."""
    spreads = {_model_label(run["model"]): run["usage"]["utilisation"] for run in runs}
    distributions("utilisation", "", "", spreads, system_colors(list(spreads)), label="code utilisation").save(path)


def _model_label(model: Mapping[str, Any]) -> str:
    layers = model["conv_layers"]
    return f"{layers} CNN {'layer' if layers == 1 else 'layers'} ({model['name']})"
