"""The colors of what is shown: of relation categories, of systems, of codes; the same in terminals, pages and figures.

Hues of codes step by the golden angle, so that codes near in number are far in color. A tint is a soft background; the
ink on it is always given too, so that it reads the same on dark and light terminals.
"""

from colorsys import hls_to_rgb

CATEGORY_COLORS = {"concession": "#c678dd", "causal": "#e06c75", "temporal": "#61afef", "conjunction": "#98c379"}
NO_RELATION = "#7f848e"
SYSTEM_COLORS = ("#3b6fb6", "#c8643c", "#4f8f5b", "#8a63a8", "#b08a2e", "#4b8f95", "#b5557a", "#6b7280")
INK, FAINT = "#22262b", "#c9cdd2"  # letters and lines of a figure
INK_ON_TINT = "#1c1c1c"
GOLDEN_ANGLE = 137.508


def hue(code: int) -> int:
    """The hue of a code, in degrees."""
    return round(code * GOLDEN_ANGLE) % 360


def tint(code: int, *, lightness: float = 0.84) -> str:
    """The soft background of a code, as `#rrggbb`."""
    channels = hls_to_rgb(hue(code) / 360, lightness, 0.62)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
