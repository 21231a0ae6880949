"""Pages: the report, stories with their plans, the code dictionary, an annotated story. Each needs no other file.

The markup is in `templates/`: every value is escaped, and its control characters are shown and not obeyed. A page says
that this program made it, so that only such a file is replaced by another page.

What codes mean comes from `codes.json` (`discodvt codes` writes it), where it is in the model's directory.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from discodvt.discourse import CATEGORIES, Annotation, category_of
from discodvt.errors import BadRequest, WorkFailed
from discodvt.report.colors import hue
from discodvt.report.escaping import one_line, printable
from discodvt.report.terminal import numbered_edus, summary
from discodvt.resumable import replacing
from discodvt.writing.story import Story

if TYPE_CHECKING:
    from jinja2 import Environment

MEANINGS = "codes.json"
GENERATOR = '<meta name="generator" content="discodvt">'
HEAD_BYTES = 1024  # the generator tag is in the first bytes of a page


class Part(Protocol):
    """A table, a figure or stories of a report; `macro` of `templates/parts.html` shows it."""

    macro: ClassVar[str]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading, a few words, and tables, figures or stories."""

    name: str
    title: str
    lead: str
    parts: Sequence[Part]


def report_page(title: str, facts: str, sections: Sequence[ReportSection]) -> str:
    """The report as one page."""
    return _render("report.html", title=title, facts=facts, sections=sections)


def code_page(study: Mapping[str, Any]) -> str:
    """The code dictionary (what `codes.json` holds): stories with their codes, and what each code stands for."""
    return _render("codes.html", title=f"Codes of {study['model']['name']}", study=study)


def story_page(stories: Sequence[Story], *, meanings: Mapping[int, str] | None = None) -> str:
    """Stories with their plans; every segment and cell of a plan can be pointed at or reached with the tab key."""
    title = stories[0].prompt if len(stories) == 1 else f"{len(stories)} stories"
    shown = [
        (story, heading, list(_plan_cells(story))) for story, heading in zip(stories, _headings(stories), strict=True)
    ]
    return _render("stories.html", title=title, stories=shown, meanings=meanings or {})


def annotation_page(text: str, annotation: Annotation, *, title: str) -> str:
    """A story in the colors of its relations, each EDU with its relation as a tooltip."""
    edus = []
    for number, start, end, relation, markers in numbered_edus(annotation):
        piece = text[start:end]
        begin, finish = end - len(piece.lstrip()), start + len(piece.rstrip())
        said = "first EDU" if relation is None else f"{relation.replace('_', ' ')} (to EDU {number})"
        edus.append(
            {
                "before": text[start:begin],
                "pieces": list(_marked(text, begin, finish, markers)),
                "after": text[finish:end],
                "category": (category_of(relation) if relation else None) or "unknown",
                "tip": f"{number + 1}: {said}",
            }
        )
    return _render("annotation.html", title=title, edus=edus, categories=CATEGORIES)


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


def check_place(path: Path) -> None:
    """Refuse, before the work, a file that cannot be written where it is to be."""
    folder = path.parent
    if not folder.is_dir():
        raise BadRequest(f"{folder}: {'not a directory' if folder.exists() else 'no such directory'}; create it first")
    if path.is_dir():
        raise BadRequest(f"{path}: a directory; give a file in it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadRequest(f"{folder}: no permission to write in this directory; choose another for {path.name}")


def check_page(path: Path, *, overwrite: bool = False) -> None:
    """Refuse, before the work, a page that cannot be written or would replace what is not a page of this program."""
    check_place(path)
    if not overwrite and path.is_symlink():
        raise BadRequest(f"{path}: a link; give the file itself, or replace the link with `overwrite`", "overwrite")
    if not overwrite and path.exists() and not _is_page(path):
        raise BadRequest(f"{path}: no page of discodvt; choose another name, or `overwrite` to replace it", "overwrite")


def write_page(path: Path, page: str, *, overwrite: bool = False) -> None:
    """Write a page where `check_page` allows it: whole or not at all, and never through a link."""
    check_page(path, overwrite=overwrite)
    try:
        with replacing(path) as partial, partial.open("x", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise WorkFailed(f"{path}: not written ({error.strerror}); choose another file for the page") from None


def _is_page(path: Path) -> bool:
    """Whether a file is a page of this program, which another may replace."""
    try:
        with path.open("rb") as file:
            return path.is_file() and GENERATOR.encode() in file.read(HEAD_BYTES)
    except OSError:
        return False


def _meaning(entry: Mapping[str, Any]) -> str:
    phrases = [f"“{gram['text']}”" for gram in entry.get("grams", ())]
    markers = [f"{each['marker']} {each['share']:.0%}" for each in entry.get("markers", ())]
    return " · ".join(phrases[:3] + markers[:3])


def _headings(stories: Sequence[Story]) -> Iterator[str]:
    """The prompt of each story; several stories to one prompt are numbered."""
    totals = Counter(story.prompt for story in stories)
    numbers: Counter[str] = Counter()
    for story in stories:
        numbers[story.prompt] += 1
        many = totals[story.prompt] > 1
        yield story.prompt + (f" ({numbers[story.prompt]} of {totals[story.prompt]})" if many else "")


def _plan_cells(story: Story) -> Iterator[tuple[int, int | None]]:
    """Each code of the plan with the number of its segment; None where it governs no text, anywhere in the plan."""
    following = 0
    for code in story.plan:
        governs = following < len(story.segments) and story.segments[following][0] == code
        yield code, following if governs else None
        following += governs


def _marked(
    text: str, start: int, end: int, markers: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[str, str | None]]:
    """The pieces of an EDU, a connective with its category."""
    at = start
    for begin, finish, marker in markers:
        yield text[at:begin], None
        yield text[begin:finish], category_of(marker)
        at = finish
    yield text[at:end], None


def _render(template: str, **values: Any) -> str:
    return _templates().get_template(template).render(values)


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("discodvt.report"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"generator": GENERATOR, "hue": hue, "one_line": one_line, "summary": summary}
    return environment


def _shown(value: Any) -> Any:
    """What a template prints: plain text without control characters; markup made by a template stays as it is."""
    return printable(value.replace("\r\n", "\n")) if type(value) is str else value
