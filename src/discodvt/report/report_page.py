"""The report as one page that needs nothing else: style, script, figures and tables inside."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from discodvt.report.sections import Markup, Part, Section
from discodvt.report.table_formats import html as table_html
from discodvt.report.tables import Table


def report_page(title: str, facts: str, sections: Sequence[Section]) -> str:
    """The whole page."""
    contents = "".join(f'<li><a href="#{each.name}">{escape(each.title)}</a></li>' for each in sections)
    body = "".join(map(_section, sections))
    return _PAGE.format(
        title=escape(title), facts=escape(facts), contents=contents, body=body, style=_asset("css"), script=_asset("js")
    )


def _section(section: Section) -> str:
    parts = "".join(map(_part, section.parts))
    return (
        f'<section id="{section.name}"><h2>{escape(section.title)}</h2><p>{escape(section.lead)}</p>{parts}</section>'
    )


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return table_html(part)
    return part.html if isinstance(part, Markup) else part.html()


def _asset(suffix: str) -> str:
    return (files("discodvt.report") / f"report.{suffix}").read_text(encoding="utf-8").strip()


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header><h1>{title}</h1><p class="facts">{facts}</p><nav aria-label="Contents"><ul>{contents}</ul></nav></header>
<main>{body}</main>
<div id="tip" role="tooltip" hidden></div>
<script>
{script}
</script>
</body>
</html>
"""
