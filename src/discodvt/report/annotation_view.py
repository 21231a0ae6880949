"""A story with its EDUs and relations: in the terminal, and as a page of its own (no network)."""

from collections.abc import Iterator
from html import escape

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from discodvt.discourse import CATEGORIES, Annotation, category_of, marker_of

COLOURS = {"concession": "#c678dd", "causal": "#e06c75", "temporal": "#61afef", "conjunction": "#98c379"}
PLAIN = "#7f848e"


def _numbered(text: str, annotation: Annotation) -> Iterator[tuple[int, str, str | None]]:
    """Each EDU with its number and the relation that links it to the one before."""
    for number, (start, end) in enumerate(annotation.edus):
        yield number, text[start:end], annotation.relations[number - 1] if number else None


def _colour(label: str | None) -> str:
    category = category_of(label) if label else None
    return COLOURS[category] if category else PLAIN


def _markers_in(annotation: Annotation, start: int, end: int) -> list[tuple[int, int, str]]:
    return [(m.start, m.end, m.marker) for m in annotation.mentions if start <= m.start < end]


def legend() -> Text:
    line = Text()
    for category, markers in CATEGORIES.items():
        line.append("■ ", style=COLOURS[category]).append(f"{category} ", style="bold").append(
            f"({', '.join(markers)})   "
        )
    return line


def terminal_view(text: str, annotation: Annotation) -> RenderableType:
    """EDUs line by line; beside each the relation to the one before, in the colour of its category."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", style="dim", no_wrap=True)
    grid.add_column(no_wrap=True, min_width=18)
    grid.add_column(ratio=1)
    for number, piece, label in _numbered(text, annotation):
        start, end = annotation.edus[number]
        colour = _colour(label)
        body = Text(piece.strip(), style=colour if label and marker_of(label) else "")
        lead = start + len(piece) - len(piece.lstrip())
        for begin, finish, marker in _markers_in(annotation, start, end):
            body.stylize(f"bold underline {_colour(marker)}", begin - lead, finish - lead)
        name = Text("·" if label is None or not marker_of(label) else label, style=colour)
        grid.add_row(str(number + 1), name, body)
    known = sum(marker_of(label) is not None for label in annotation.relations)
    total = len(annotation.relations)
    summary = Text(f"{len(annotation.edus)} EDUs, {known} of {total} neighbours linked by a marker", style="dim")
    return Group(legend(), Padding(grid, (1, 0)), summary)


def html_page(text: str, annotation: Annotation, *, title: str) -> str:
    """One self-contained page: the story in colour, each EDU telling its relation when pointed at."""
    body = []
    for number, piece, label in _numbered(text, annotation):
        start, end = annotation.edus[number]
        body.append(piece[: len(piece) - len(piece.lstrip())])
        start, end = start + len(body[-1]), end - (len(piece) - len(piece.rstrip()))
        category = (category_of(label) if label else None) or "unknown"
        tip = "first EDU" if label is None else f"{label.replace('_', ' ')} (to EDU {number})"
        inner = _with_markers(text, start, end, _markers_in(annotation, start, end))
        body.append(f'<span class="edu {category}" tabindex="0" data-tip="{number + 1}: {escape(tip)}">{inner}</span>')
        body.append(piece[len(piece.rstrip()) :])
    keys = "".join(f'<span class="key {c}">{c}: {", ".join(m)}</span>' for c, m in CATEGORIES.items())
    return _PAGE.format(title=escape(title), keys=keys, story="".join(body), style=_style())


def _with_markers(text: str, start: int, end: int, markers: list[tuple[int, int, str]]) -> str:
    parts, at = [], start
    for begin, finish, marker in markers:
        parts += [escape(text[at:begin]), f'<b class="{category_of(marker)}">{escape(text[begin:finish])}</b>']
        at = finish
    return "".join(parts) + escape(text[at:end])


def _style() -> str:
    tints = "".join(
        f".edu.{name}{{background:{colour}26;border-bottom:2px solid {colour}}}"
        f"b.{name}{{color:{colour};text-decoration:underline}}.key.{name}{{border-left:1em solid {colour}}}"
        for name, colour in COLOURS.items()
    )
    return _STYLE + tints


_STYLE = (
    "body{font:18px/2 Georgia,serif;max-width:46em;margin:2em auto;padding:0 1em;color:#222;background:#fdfcf8}"
    "main{white-space:pre-wrap}"
    ".edu{padding:.15em .1em;border-radius:3px;border-bottom:2px solid #ddd;position:relative;cursor:default}"
    ".edu:hover,.edu:focus{outline:2px solid #444}"
    ".edu:hover::after,.edu:focus::after{content:attr(data-tip);position:absolute;left:0;top:2em;z-index:1;"
    "font:13px/1.4 sans-serif;white-space:nowrap;background:#222;color:#fff;padding:.3em .6em;border-radius:4px}"
    ".key{font:13px sans-serif;padding-left:.5em;margin-right:1.5em;white-space:nowrap}"
)
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title><style>{style}</style></head>
<body>
<h1>{title}</h1>
<p>{keys}</p>
<main>{story}</main>
</body>
</html>
"""
