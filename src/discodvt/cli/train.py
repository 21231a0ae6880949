"""`discodvt train`: one recipe, one training stage."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from discodvt.cli import console
from discodvt.cli.options import Recipe, Set
from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from discodvt.training.assembly import Progress
    from discodvt.training.loop import Event


SECONDS_BETWEEN_LINES = 10  # about what is made ready, where there is no bar


def train(
    recipe: Recipe,
    set_: Set = None,
    out: Annotated[Path | None, typer.Option(help="Directory for the run; default: `out` of the recipe.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an unfinished run stands.")] = False,
    change: Annotated[
        list[str] | None,
        typer.Option("--change", metavar="A.B=VALUE", help="With --resume: another value from here on; repeatable."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Clear a run in the way and start over.")] = False,
) -> None:
    """Train the stage that a recipe names (`discodvt recipes` lists those that ship)."""
    from discodvt.training.recipes import read_recipe

    changes = change or []
    asked = read_recipe(recipe, [*(set_ or []), *changes])
    directory = out or asked.out
    if directory is None:
        raise BadRequest(f"{recipe}: no output directory; give --out, or `out` in the recipe")
    if resume and overwrite:
        raise BadRequest("--resume and --overwrite: choose one")
    from discodvt.training.run import train as run

    keys = [override.partition("=")[0].strip() for override in changes]

    def start(progress: "Progress") -> "Iterable[Event]":
        return run(asked, directory, resume=resume, overwrite=overwrite, changes=keys, progress=progress)

    show_events(start, asked.stage)


def show_events(start: "Callable[[Progress], Iterable[Event]]", called: str) -> None:
    """What happens in a training run: progress, figures and warnings on standard error, notes on standard output.

    `start` begins the run, given what it tells its progress to before the first step.
    """
    said = time.monotonic()

    def prepare(what: str, done: int, total: int) -> None:
        nonlocal said
        bar.update(task, description=what, completed=done, total=total)
        if not console.err.is_terminal and time.monotonic() - said > SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            console.err.print(f"{what} {done:,}/{total:,}", soft_wrap=True)

    with console.progress() as bar:
        task = bar.add_task(called, total=None, rate="")
        for event in start(prepare):
            if event.kind == "step":
                bar.update(task, description=called, completed=event.step, total=event.total)
            elif event.kind == "train":
                _show_rate(bar, task, event.figures)
                if not console.err.is_terminal:
                    console.err.print(f"step {event.step}/{event.total}  {_line(event.figures)}", soft_wrap=True)
            elif event.kind == "valid":
                figures = f" {event.step}/{event.total}  {_line(event.figures)}"
                console.err.print(Text.assemble(("valid", "bold"), figures), soft_wrap=True)
            elif event.kind == "warning":
                message = f" at step {event.step}: {event.message}"
                console.err.print(Text.assemble(("warning", "yellow"), message), soft_wrap=True)
            else:
                console.out.print(event.message, highlight=False)


def _show_rate(bar: "Bar", task: "TaskID", figures: dict[str, float]) -> None:
    shown = {name: value for name, value in figures.items() if name not in ("gradient_norm", "codes_dead")}
    bar.update(task, rate=_line(shown))


def _line(figures: dict[str, float]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value:,.4g}" for name, value in figures.items())
