"""One colour for each code: the same in every story, in the terminal and on pages.

Hues step by the golden angle, so that codes near in number are far in colour. A tint is a soft background; the ink on
it is always given too, so that it reads the same on dark and light terminals.
"""

from colorsys import hls_to_rgb

GOLDEN_ANGLE = 137.508
INK = "#1c1c1c"


def hue(code: int) -> int:
    """The hue of a code, in degrees."""
    return round(code * GOLDEN_ANGLE) % 360


def tint(code: int, *, lightness: float = 0.84) -> str:
    """The soft background of a code, as `#rrggbb`."""
    channels = hls_to_rgb(hue(code) / 360, lightness, 0.62)
    return "#" + "".join(f"{round(255 * channel):02x}" for channel in channels)
