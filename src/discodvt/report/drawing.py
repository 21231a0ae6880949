"""Figures: drawn once with matplotlib, saved as SVG and PDF for papers, and set into pages.

In a page the colors become the page's own (light or dark), the letters stay letters, and every part that was given a
tip shows it on hover and keyboard focus.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from discodvt.report.colors import CATEGORY_COLORS, FAINT, INK, SYSTEM_COLORS
from discodvt.report.escaping import printable

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PIXELS_PER_POINT = 1.6  # scale of a figure in a page: letters have one size in all of them
PAGE_COLORS = {INK: "var(--ink)", FAINT: "var(--faint)"}  # a page's own colors, light or dark
PAGE_COLORS |= {color: f"var(--{category})" for category, color in CATEGORY_COLORS.items()}
PAGE_COLORS |= {color: f"var(--series-{number})" for number, color in enumerate(SYSTEM_COLORS, start=1)}


@dataclass(slots=True)
class Drawing:
    """A figure with its caption, and the tips of its parts by their group id."""

    macro: ClassVar[str] = "drawing"  # of templates/parts.html

    name: str
    title: str
    note: str
    figure: "Figure"
    tips: dict[str, str] = field(default_factory=dict)
    _svg: str | None = None

    def add_tip(self, part: "Artist", tip: str) -> None:
        """Give a part of the figure a tooltip for pages."""
        identity = f"{self.name}-{len(self.tips)}"
        part.set_gid(identity)
        self.tips[identity] = tip

    def svg(self) -> str:
        """The figure as an SVG file: always the same text, drawn once."""
        if self._svg is None:
            self._svg = self._saved("svg", metadata={"Date": None}, transparent=True).decode()
        return self._svg

    def pdf(self) -> bytes:
        """The figure as a PDF file: always the same bytes."""
        return self._saved("pdf", metadata={"CreationDate": None, "ModDate": None}, transparent=True)

    def save(self, path: Path) -> None:
        """Write the figure as SVG, PDF or PNG (a picture on white), by the suffix of `path`."""
        if path.suffix == ".png":
            path.write_bytes(self._saved("png", dpi=150))
        else:
            path.write_bytes(self.pdf() if path.suffix == ".pdf" else self.svg().encode())

    def _saved(self, kind: str, **options: Any) -> bytes:
        buffer = BytesIO()
        with _settings(self.name):
            self.figure.savefig(buffer, format=kind, **options)
        return buffer.getvalue()

    def inline(self) -> "Markup":
        """The figure as part of a page."""
        from markupsafe import Markup

        svg = self.svg()
        svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL)
        svg = re.sub(r'<g id="([^"]+)"', lambda found: f"<g{self._tip(found[1])}", svg)
        for color, variable in PAGE_COLORS.items():
            svg = svg.replace(color, variable)
        width, height = 72 * self.figure.get_size_inches()  # matplotlib's SVG counts in points
        frame = f'viewBox="0 0 {width:g} {height:g}" style="max-width:{PIXELS_PER_POINT * width:.0f}px"'
        return Markup(re.sub(r"^<svg[^>]*>", f'<svg {frame} data-group role="group">', svg, count=1).strip())

    def _tip(self, identity: str) -> str:
        from markupsafe import escape

        if identity not in self.tips:
            return ""
        tip = escape(printable(self.tips[identity]))
        return f' class="mark" role="img" aria-label="{tip}" data-tip="{tip}"'


def new_drawing(
    name: str, title: str, note: str, *, rows: int = 1, columns: int = 1, size: tuple[float, float], **options: Any
) -> tuple[Drawing, list["Axes"]]:
    """An empty figure of some panels, without frames at the top and right."""
    from matplotlib.figure import Figure

    with _settings(name):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, **options)
        axes: list[Axes] = list(panels.ravel())
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return Drawing(name, title, note, figure), axes


@contextmanager
def _settings(salt: str) -> Iterator[None]:
    """Letters as letters, ids that differ between figures but not between runs, colors that a page can replace."""
    from matplotlib import rc_context

    colors: dict[Any, Any] = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    style = {"svg.fonttype": "none", "svg.hashsalt": salt, "axes.edgecolor": FAINT, "font.size": 9, "pdf.fonttype": 42}
    with rc_context(colors | style):
        yield
