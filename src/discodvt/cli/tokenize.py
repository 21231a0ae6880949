"""`discodvt tokenize`: the stories of a recipe as tokens on disk, for training."""

from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli.console import out, print_json, progress
from discodvt.cli.options import Json, On, Overwrite, Resources, Workers


def tokenize(
    recipe: Annotated[str, typer.Argument(help="A recipe: a TOML file, or a name of `discodvt recipes`.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Directory for the tokens.")],
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Change a key of the recipe; repeatable.")
    ] = None,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Turn the corpus of a recipe into tokens, once for all runs and processes that read it.

    Stopped, it resumes. `discodvt train RECIPE --set data.tokens=OUT` reads them; without, a run makes its own.
    """
    from discodvt.executors import Place
    from discodvt.training.recipes import read_recipe

    asked = read_recipe(recipe, [*(set_ or []), "data.tokens="])
    place = Place(on, workers, resources)
    with progress() as bar:
        task = bar.add_task("tokenizing", total=None, rate="")
        result = asked.tokenize(
            target,
            asked.text(None),
            place=place,
            overwrite=overwrite,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    counts = {split: {name: facts[name] for name in ("stories", "tokens")} for split, facts in result.facts.items()}
    if json:
        print_json(counts)
        return
    if result.already_complete:
        out.print(f"{target}: already complete", soft_wrap=True)
    for split, found in counts.items():
        out.print(f"{split}: {found['stories']:,} stories, {found['tokens']:,} tokens")
