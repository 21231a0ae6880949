"""What a report is built of: sections with a heading, a few words, and tables, figures or pieces of page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from discodvt.report.drawings import Drawing
from discodvt.report.tables import Table


@dataclass(frozen=True, slots=True)
class Markup:
    """A piece of page that is neither table nor figure."""

    html: str


Part: TypeAlias = Table | Drawing | Markup


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    lead: str
    parts: Sequence[Part]
