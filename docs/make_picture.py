"""Draw docs/story.svg, the sample story with its relations, and docs/plan.svg, a written story with its plan."""

from importlib.resources import files
from io import StringIO
from pathlib import Path

from rich.console import Console, RenderableType
from rich.terminal_theme import SVG_EXPORT_THEME

from discodvt.discourse import Annotator
from discodvt.report.terminal import AnnotationView, PlanView
from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.candidates import write_best


def draw(name: str, shown: RenderableType, *, title: str, width: int) -> None:
    console = Console(width=width, record=True, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(shown)
    picture = console.export_svg(title=title, theme=SVG_EXPORT_THEME, unique_id=name)
    (Path(__file__).parent / f"{name}.svg").write_text(picture, encoding="utf-8")


text = (files("discodvt") / "assets" / "sample_story.txt").read_text(encoding="utf-8")
draw("story", AnnotationView(text, Annotator().annotate(text)), title="discodvt annotate --show", width=124)

asked = [Request("The fox who lost his hat")]
(story,) = write_best(StoryWriter.from_pretrained(), asked, SamplingParams(), candidates=8)
draw("plan", PlanView(story), title="make story", width=80)
