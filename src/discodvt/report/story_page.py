"""Stories with their plans as one page: no network, no script; every code tells its number and what it means.

What codes mean comes from `codes.json` (`discodvt codes` writes it), where it stands beside the model.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from discodvt.errors import BadRequest
from discodvt.report.code_colours import hue
from discodvt.report.story_view import summary
from discodvt.writing.story import Story

MEANINGS = "codes.json"


def story_page(records: Sequence[Story], *, meanings: Mapping[int, str] | None = None) -> str:
    """The page. Each segment and each cell of the plan above it can be pointed at or reached with the tab key."""
    title = records[0].prompt if len(records) == 1 else f"{len(records)} stories"
    contents = "".join(f'<li><a href="#s{n}">{escape(record.prompt)}</a></li>' for n, record in enumerate(records))
    articles = "\n".join(_article(n, record, meanings or {}) for n, record in enumerate(records))
    return _PAGE.format(
        title=escape(title),
        style=_STYLE,
        contents=f"<h1>{escape(title)}</h1><nav><ol>{contents}</ol></nav>" if len(records) > 1 else "",
        articles=articles,
    )


def read_meanings(directory: Path) -> dict[int, str]:
    """What each code means, in one line; empty where the model has no dictionary of its codes."""
    path = directory / MEANINGS
    if not path.is_file():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["codes"]
        return {int(entry["code"]): _meaning(entry) for entry in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path}: no code dictionary ({error!r}); write it again with `discodvt codes`") from None


def _meaning(entry: Mapping[str, Any]) -> str:
    phrases = [f"“{gram['text']}”" for gram in entry.get("grams", ())]
    markers = [f"{each['marker']} {each['share']:.0%}" for each in entry.get("markers", ())]
    return " · ".join(phrases[:3] + markers[:3])


def _article(number: int, record: Story, meanings: Mapping[int, str]) -> str:
    cells = []
    for code, segment in _governed(record):
        attributes = _attributes(code, meanings)
        if segment is not None:
            cells.append(f'<a href="#s{number}c{segment}" {attributes}>{code}</a>')
        else:
            cells.append(f'<span class="unreached" tabindex="0" {attributes}>{code}</span>')
    strip = f'<div class="plan" aria-label="plan">{"".join(cells)}</div>' if cells else ""
    return (
        f'<article id="s{number}"><h2>{escape(record.prompt)}</h2>{strip}'
        f'<p class="story">{_story(number, record, meanings)}</p><footer>{escape(summary(record))}</footer></article>'
    )


def _governed(record: Story) -> Iterator[tuple[int, int | None]]:
    """Each code of the plan with the number of its segment; None where it governs no text, which happens anywhere."""
    following = 0
    for code in record.plan:
        if following < len(record.segments) and record.segments[following][0] == code:
            yield code, following
            following += 1
        else:
            yield code, None


def _story(number: int, record: Story, meanings: Mapping[int, str]) -> str:
    if not record.segments:
        return escape(record.text)
    pieces = []
    for place, (code, start, end) in enumerate(record.segments):
        text = escape(record.text[start:end])
        if code < 0:
            pieces.append(text)
        else:
            pieces.append(f'<span id="s{number}c{place}" tabindex="0" {_attributes(code, meanings)}>{text}</span>')
    return "".join(pieces)


def _attributes(code: int, meanings: Mapping[int, str]) -> str:
    tip = f"code {code}" + (f": {meanings[code]}" if meanings.get(code) else "")
    return f'style="--hue:{hue(code)}" data-tip="{escape(tip)}"'


_STYLE = """
:root{color-scheme:light dark;--ink:#222;--paper:#fdfcf8;--tint:85%;--deep:62%;--strength:65%}
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e0;--paper:#17181a;--tint:24%;--deep:45%;--strength:38%}}
body{font:18px/2 Georgia,serif;max-width:44em;margin:2em auto;padding:0 1em;color:var(--ink);background:var(--paper)}
article{margin:0 0 4em}
h2{line-height:1.3}
.story{white-space:pre-wrap}
[data-tip]{position:relative;background:hsl(var(--hue) var(--strength) var(--tint))}
.story [data-tip]{padding:.15em 0;border-radius:3px;cursor:default}
.plan{display:flex;flex-wrap:wrap;gap:2px;font:12px/1.9 ui-monospace,monospace}
.plan>*{flex:1 0 2.6em;text-align:center;color:inherit;text-decoration:none;border-radius:2px}
.plan .unreached{opacity:.45}
[data-tip]:hover,[data-tip]:focus,:target{outline:2px solid hsl(var(--hue) 60% var(--deep));outline-offset:1px}
[data-tip]:hover::after,[data-tip]:focus::after{content:attr(data-tip);position:absolute;left:0;top:calc(100% + 4px);
z-index:1;width:max-content;max-width:24em;padding:.3em .6em;border-radius:4px;font:13px/1.4 sans-serif;
text-align:left;white-space:normal;color:var(--paper);background:var(--ink)}
footer,nav{font:13px/1.8 sans-serif;opacity:.8}
"""
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head>
<body>
{contents}
<main>
{articles}
</main>
</body>
</html>
"""
