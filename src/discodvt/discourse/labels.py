"""The label inventory: ten markers in four categories, two directions each, and `unknown` (paper, appendix A.3.2).

A label names the order of the arguments in the text: `although_arg2_arg1` is "Although <Arg2>, <Arg1>".
"""

CATEGORIES: dict[str, tuple[str, ...]] = {
    "concession": ("although",),
    "causal": ("because", "so"),
    "temporal": ("before", "after", "as", "then"),
    "conjunction": ("and", "also", "still"),
}
MARKERS: tuple[str, ...] = ("although", "so", "because", "before", "after", "as", "then", "and", "also", "still")
UNKNOWN = "unknown"
DIRECTIONS: tuple[str, str] = ("arg1_arg2", "arg2_arg1")
LABELS: tuple[str, ...] = (*(f"{marker}_{order}" for marker in MARKERS for order in DIRECTIONS), UNKNOWN)

_CATEGORY_OF = {marker: category for category, markers in CATEGORIES.items() for marker in markers}


def relation(marker: str, *, arg1_first: bool) -> str:
    """The label of a marker whose arguments stand in this order."""
    return f"{marker}_{DIRECTIONS[0 if arg1_first else 1]}"


def marker_of(label: str) -> str | None:
    """The marker of a label, or None for `unknown`."""
    return None if label == UNKNOWN else label.partition("_")[0]


def category_of(label: str) -> str | None:
    """The category of a label or a marker, or None for `unknown`."""
    return _CATEGORY_OF.get(label.partition("_")[0])
