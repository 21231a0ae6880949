"""The kinds of figures a report has: bars side by side, pies, intervals, curves of a distribution."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discodvt.report.annotation_view import COLOURS
from discodvt.report.drawings import FAINT, INK, SERIES, Drawing, new_drawing

if TYPE_CHECKING:
    from matplotlib.patches import Patch

Spread: TypeAlias = tuple[float, float | None, float | None]  # a value and its interval
Colours: TypeAlias = Mapping[str, str]


def colours_of(systems: Sequence[str]) -> Colours:
    """Each system's colour, the same in all figures."""
    return {system: SERIES[number % len(SERIES)] for number, system in enumerate(systems)}


def grouped_bars(
    name: str,
    title: str,
    note: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Spread | None]],
    colours: Colours,
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
            (bar,) = axes.bar(place, value, width * 0.92, color=colours[label])
            ends = "" if low is None or high is None else f", 95% interval {low:.1f} to {high:.1f}"
            drawing.tell(bar, f"{label}, {groups[group]}: {value:.1f}{unit}{ends}")
            if low is not None and high is not None:
                axes.plot([place, place], [low, high], color=INK, linewidth=0.9)
    axes.set_xticks(range(len(groups)), groups)
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    _legend(drawing, list(series), colours)
    return drawing


def pies(name: str, title: str, note: str, shares: Mapping[str, Mapping[str, float]]) -> Drawing:
    """One pie a system: the shares of the four categories."""
    columns = min(len(shares), 4)
    rows = -(-len(shares) // columns)
    drawing, panels = new_drawing(name, title, note, rows=rows, columns=columns, size=(1.9 * columns + 1.4, 2.1 * rows))
    for axes in panels:
        axes.set_axis_off()
    for axes, (label, parts) in zip(panels, shares.items(), strict=False):
        wedges = axes.pie(
            list(parts.values()), colors=[COLOURS[category] for category in parts], startangle=90, counterclock=False
        )[0]
        for wedge, (category, share) in zip(wedges, parts.items(), strict=True):
            drawing.tell(wedge, f"{label}: {category} {100 * share:.2f}%")
        axes.set_title(label, fontsize=9)
    handles = [_patch(colour, category) for category, colour in COLOURS.items()]
    drawing.figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)
    return drawing


def intervals(
    name: str, title: str, note: str, scores: Mapping[str, Mapping[str, Spread]], colours: Colours, *, columns: int
) -> Drawing:
    """A panel for each score: every system's value with its interval, one below the other."""
    rows = -(-len(scores) // columns)
    systems = [system for system in colours if any(system in values for values in scores.values())]
    size = (8.6, rows * (0.55 + 0.24 * len(systems)))
    drawing, panels = new_drawing(name, title, note, rows=rows, columns=columns, size=size, sharey=True)
    for axes in panels[len(scores) :]:
        axes.set_visible(False)
    for axes, (score, values) in zip(panels, scores.items(), strict=False):
        for place, system in enumerate(systems):
            if system not in values:
                continue
            value, low, high = values[system]
            colour = colours[system]
            ends = "" if low is None or high is None else f", 95% interval {low:.2f} to {high:.2f}"
            tip = f"{system}, {score}: {value:.2f}{ends}"
            if low is not None and high is not None:
                (line,) = axes.plot([low, high], [place, place], color=colour, linewidth=2.2, solid_capstyle="round")
                drawing.tell(line, tip)
            (dot,) = axes.plot([value], [place], "o", color=colour, markersize=5.5)
            drawing.tell(dot, tip)
        axes.set_title(score, fontsize=9, loc="left")
        axes.set_yticks(range(len(systems)), systems)
        axes.set_ylim(len(systems) - 0.4, -0.6)
        axes.margins(x=0.12)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", color=FAINT, linewidth=0.5, alpha=0.6)
        axes.set_axisbelow(True)
        axes.spines["left"].set_visible(False)
    return drawing


def distributions(
    name: str, title: str, note: str, spreads: Mapping[str, Mapping[str, Any]], colours: Colours, *, label: str
) -> Drawing:
    """How values from 0 to 1 are spread over stories: {"bins", "mean"} of each system as a stepped curve."""
    drawing, (axes,) = new_drawing(name, title, note, size=(6.4, 2.8))
    for system, spread in spreads.items():
        colour = colours[system]
        shares = [100 * share for share in spread["bins"]]
        width = 1 / len(shares)
        edges = np.linspace(0, 1, len(shares) + 1)
        bars = axes.bar(edges[:-1], shares, width, align="edge", color=colour, alpha=0.28, linewidth=0)
        for bar, start, share in zip(bars, edges, shares, strict=False):
            if share:
                drawing.tell(bar, f"{system}: {share:.1f}% of the stories between {start:.2f} and {start + width:.2f}")
        axes.stairs(shares, edges, color=colour, linewidth=1.4)
        (line,) = axes.plot([spread["mean"]] * 2, [0, max(shares)], color=colour, linestyle="--", linewidth=1.2)
        drawing.tell(line, f"{system}: mean {spread['mean']:.3f}")
    axes.set_xlabel(label)
    axes.set_ylabel("% of stories")
    axes.set_xlim(0, 1)
    _legend(drawing, list(spreads), colours)
    return drawing


def _legend(drawing: Drawing, systems: Sequence[str], colours: Colours) -> None:
    handles = [_patch(colours[system], system) for system in systems]
    columns = min(len(systems), 5)
    drawing.figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False, fontsize=9)


def _patch(colour: str, label: str) -> "Patch":
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)
