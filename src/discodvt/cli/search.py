"""`discodvt search`: the best settings of a recipe, from a space of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, Recipe, Set
from discodvt.errors import BadRequest, WorkFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from discodvt.experiments.search import Search, SearchEvent


def search(
    recipe: Recipe,
    space: Annotated[
        Path | None, typer.Option(metavar="SPACE.toml", help="Values to try; default: the paper's appendix.")
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Trainings, over all processes.")] = 10,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the study; default: `out` + -search.")
    ] = None,
    set_: Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the values drawn.")] = 0,
    pruning: Annotated[bool, typer.Option("--pruning/--no-pruning", help="Stop hopeless trials early.")] = True,
    json: Json = False,
) -> None:
    """Search for the settings of a recipe that are best by validation loss or BLEU-1 (`validation.select_by`).

    Start the same command several times to share the work; stopped, it resumes.
    """
    from discodvt.experiments.search import Search, import_optuna
    from discodvt.experiments.search_results import BEST, write_results
    from discodvt.experiments.space import paper_space, read_space
    from discodvt.mirrored import working_directory
    from discodvt.training.recipes import read_recipe

    import_optuna()
    overrides = set_ or []
    asked = read_recipe(recipe, overrides)
    directory = out or (asked.out and asked.out.with_name(asked.out.name + "-search"))
    if directory is None:
        raise BadRequest(f"{recipe}: no output directory; give --out")
    domains = paper_space(asked) if space is None else read_space(space, recipe, overrides)
    for note in domains.notes:
        console.err.print(note, highlight=False)
    with working_directory(directory) as (here, put):
        work = Search(recipe, domains, here, trials, overrides=overrides, seed=seed, pruning=pruning)
        for event in _shown(work):
            if event.kind not in ("start", "step"):
                put()
        found = write_results(work, called=directory)
        put()
    if json:
        console.print_json(found)
    errors = [f"trial {trial['trial']}: {trial['error']}" for trial in found["trials"] if trial["error"]]
    if errors and found["best"] is None:
        raise WorkFailed(f"{directory}: no trial was completed; {errors[-1]}")
    if json:
        return
    running = sum(trial["state"] == "running" for trial in found["trials"])
    if running:
        console.err.print(f"{running} trials are still at work in other processes", highlight=False)
    if found["best"] is not None:
        best = next(trial for trial in found["trials"] if trial["trial"] == found["best"])
        console.out.print(f"best: trial {best['trial']}, {found['metric']} {best['value']:.4f}, {directory / BEST}")


def _shown(work: "Search") -> "Iterator[SearchEvent]":
    """The events of a search, as they are shown."""
    with console.progress() as bar:
        tasks = {}
        for event in work.run():
            name = f"trial {event.trial}"
            if event.kind == "start":
                tasks[event.trial] = bar.add_task(name, total=None, rate=event.message)
                console.err.print(f"{name}: {event.message}", highlight=False)
            elif event.kind == "step":
                bar.update(tasks[event.trial], completed=event.step, total=event.total)
            elif event.kind != "valid":
                bar.remove_task(tasks.pop(event.trial))
                value = "" if event.value is None else f" {event.value:.4f}"
                console.err.print(
                    f"{name}: {event.kind}{value}{event.message and f': {event.message}'}", highlight=False
                )
            yield event
