"""Draw docs/story.svg: the sample story as `make story` shows it."""

from importlib.resources import files
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

from discodvt.discourse import Annotator
from discodvt.report.annotation_view import terminal_view

text = (files("discodvt") / "assets" / "sample_story.txt").read_text(encoding="utf-8")
console = Console(width=124, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
console.print(terminal_view(text, Annotator().annotate(text)))
picture = console.export_svg(title="make story", theme=SVG_EXPORT_THEME, unique_id="story")
(Path(__file__).parent / "story.svg").write_text(picture, encoding="utf-8")
