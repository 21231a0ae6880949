"""Figures that can be read: labels do not touch, whatever the numbers and names."""

from itertools import combinations

import pytest

from discodvt.report.charts import grouped_bars, intervals, pies, system_colors
from discodvt.report.drawing import Drawing

NAMES = ["one", "two"]
LONG = [f"a system with a long name, number {number}" for number in range(6)]


def touching(drawing: Drawing) -> list[tuple[str, str]]:
    """Tick labels of the horizontal axes that touch one another."""
    drawing.figure.draw_without_rendering()
    labels = [label for axes in drawing.figure.axes if axes.get_visible() for label in axes.get_xticklabels()]
    boxes = [(label.get_text(), label.get_window_extent()) for label in labels if label.get_text()]
    assert len(boxes) >= 2
    return [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if one.overlaps(other)]


@pytest.mark.parametrize(
    ("value", "spread"), [(100.0, 5.0), (99.983, 0.004), (0.0175, 0.0004), (54321.5, 0.5), (0.0, 0.0), (100.0, 0.0)]
)
def test_ticks_do_not_touch(value: float, spread: float) -> None:
    held = dict.fromkeys(NAMES, (value, value - spread, value + spread / 3))
    drawing = intervals("x", "t", "n", {f"S-{n}": held for n in range(5)}, system_colors(NAMES), columns=5)
    assert touching(drawing) == []


def test_long_names_stay_inside_the_figure() -> None:
    held = {"even": 0.5, "odd": 0.5}
    shares = {name: {"causal": 0.5, "temporal": 0.5} for name in LONG}
    bars = grouped_bars("x", "t", "n", list(held), {name: [(1.0, 0.5, 1.5)] * 2 for name in LONG},
                        system_colors(LONG), unit="%")  # fmt: skip
    for drawing in (bars, pies("y", "t", "n", shares)):
        drawing.figure.draw_without_rendering()
        (legend,) = drawing.figure.legends
        box, page = legend.get_window_extent(), drawing.figure.bbox
        assert box.x0 >= page.x0
        assert box.x1 <= page.x1
    titles = [axes.title.get_window_extent() for axes in drawing.figure.axes if axes.get_title()]
    assert len(titles) == len(LONG)
    assert not [pair for pair in combinations(titles, 2) if pair[0].overlaps(pair[1])]
