"""A story with its EDUs and relations: in the terminal, and as a page of its own (no network)."""

from bisect import bisect_right
from collections.abc import Iterator
from html import escape

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from discodvt.discourse import CATEGORIES, LABELS, Annotation, category_of, marker_of
from discodvt.report.story_view import printable

COLOURS = {"concession": "#c678dd", "causal": "#e06c75", "temporal": "#61afef", "conjunction": "#98c379"}
PLAIN = "#7f848e"
RELATION = max(map(len, LABELS))  # columns
NARROWEST = 10  # columns of text, on however narrow a terminal


Marked = tuple[int, int, str]  # start, end, marker


def _numbered(text: str, annotation: Annotation) -> Iterator[tuple[int, str, str | None, list[Marked]]]:
    """Each EDU with its number, the relation that links it to the one before, and the connectives in it."""
    starts = [start for start, _ in annotation.edus]
    marked: list[list[Marked]] = [[] for _ in starts]
    for mention in annotation.mentions:
        marked[bisect_right(starts, mention.start) - 1].append((mention.start, mention.end, mention.marker))
    for number, (start, end) in enumerate(annotation.edus):
        yield number, text[start:end], annotation.relations[number - 1] if number else None, marked[number]


def _colour(label: str | None) -> str:
    category = category_of(label) if label else None
    return COLOURS[category] if category else PLAIN


def legend() -> Columns:
    """The categories with their markers, side by side as far as the width allows."""
    keys = (
        Text.assemble(("■ ", COLOURS[category]), (f"{category} ", "bold"), f"({', '.join(markers)})")
        for category, markers in CATEGORIES.items()
    )
    return Columns(keys, padding=(0, 3))


def terminal_view(text: str, annotation: Annotation) -> RenderableType:
    """EDUs line by line; beside each the relation to the one before, in the colour of its category."""
    return _TerminalView(text, annotation)


class _TerminalView:
    """Made row by row: a table would measure them all first, slow for a book."""

    def __init__(self, text: str, annotation: Annotation) -> None:
        self.text = text
        self.annotation = annotation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield legend()
        yield Text()
        yield from self._rows(console, options.max_width)
        yield Text()
        yield from Text(_summary(self.annotation), style="dim").wrap(console, options.max_width)

    def _rows(self, console: Console, width: int) -> Iterator[Text]:
        digits = len(str(len(self.annotation.edus)))
        room = max(width - digits - RELATION - 2, NARROWEST)
        for number, piece, label, markers in _numbered(self.text, self.annotation):
            colour = _colour(label)
            name = label if label and marker_of(label) else None
            # Pictures for control characters: a terminal must not obey them. Every character keeps its place.
            body = Text(printable(piece.strip().replace("\r\n", " \n")), style=colour if name else "")
            lead = self.annotation.edus[number][0] + len(piece) - len(piece.lstrip())
            for begin, finish, marker in markers:
                body.stylize(f"bold underline {_colour(marker)}", begin - lead, finish - lead)
            head = Text.assemble((f"{number + 1:>{digits}} ", "dim"), (f"{name or '·':<{RELATION}} ", colour))
            for line in body.wrap(console, room):
                yield head + line
                head = Text(" " * len(head))


def _summary(annotation: Annotation) -> str:
    count, total = len(annotation.edus), len(annotation.relations)
    known = sum(marker_of(label) is not None for label in annotation.relations)
    return f"{count} {'EDU' if count == 1 else 'EDUs'}, {known} of {total} neighbours linked by a marker"


def html_page(text: str, annotation: Annotation, *, title: str) -> str:
    """One self-contained page: the story in colour, each EDU telling its relation when pointed at."""
    body = []
    for number, piece, label, markers in _numbered(text, annotation):
        start, end = annotation.edus[number]
        body.append(piece[: len(piece) - len(piece.lstrip())])
        start, end = start + len(body[-1]), end - (len(piece) - len(piece.rstrip()))
        category = (category_of(label) if label else None) or "unknown"
        tip = "first EDU" if label is None else f"{label.replace('_', ' ')} (to EDU {number})"
        inner = _with_markers(text, start, end, markers)
        body.append(f'<span class="edu {category}" tabindex="0" data-tip="{number + 1}: {escape(tip)}">{inner}</span>')
        body.append(piece[len(piece.rstrip()) :])
    keys = "".join(f'<span class="key {c}">{c}: {", ".join(m)}</span>' for c, m in CATEGORIES.items())
    return _PAGE.format(title=escape(title), keys=keys, story="".join(body), style=_style())


def _with_markers(text: str, start: int, end: int, markers: list[Marked]) -> str:
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
