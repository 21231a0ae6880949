"""`discodvt tokenize`: the stories of a recipe as tokens on disk, for training."""

from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, On, Overwrite, Recipe, Resources, Set, Workers


def tokenize(
    recipe: Recipe,
    out: Annotated[Path, typer.Argument(help="Directory for the tokens.")],
    set_: Set = None,
    overwrite: Overwrite = False,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    json: Json = False,
) -> None:
    """Turn the corpus of a recipe into tokens, once for all runs and processes that read it.

    Stopped, it resumes. `discodvt train RECIPE --set data.tokens=OUT` reads them; without, a run makes its own.
    """
    from discodvt.executors import Place
    from discodvt.training.recipes import read_recipe

    asked = read_recipe(recipe, [*(set_ or []), "data.tokens="])
    place = Place(on, workers, resources)
    with console.counting("tokenizing") as progress:
        result = asked.tokenize(out, asked.text(None), place=place, overwrite=overwrite, progress=progress)
    counts = {split: {name: facts[name] for name in ("stories", "tokens")} for split, facts in result.facts.items()}
    if json:
        console.print_json(counts)
        return
    if result.already_complete:
        console.out.print(f"{out}: already complete", soft_wrap=True)
    for split, found in counts.items():
        console.out.print(f"{split}: {found['stories']:,} stories, {found['tokens']:,} tokens")
