"""`discodvt recipes`: the recipes that ship with the package, for `discodvt train`."""

from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli.console import out

app = typer.Typer(help="List the recipes that ship, or copy them to be changed.", invoke_without_command=True)


@app.callback()
def recipes(context: typer.Context) -> None:
    """List the recipes that ship, or copy them to be changed."""
    from discodvt.config import shipped_recipes

    if context.invoked_subcommand is None:
        shipped = shipped_recipes()
        width = max(map(len, shipped), default=0)
        for name, path in shipped.items():
            about = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
            out.print(f"{name:<{width}}  {about}", highlight=False)


@app.command("copy")
def copy(
    name: Annotated[str, typer.Argument(help="A recipe (paper/wikiplots), or a folder of them (paper).")],
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Where to.")],
) -> None:
    """Copy a recipe, or a folder of recipes with its scripts; nothing is replaced."""
    from discodvt.config import copy_recipes

    for path in copy_recipes(name, target):
        out.print(str(path), highlight=False)
