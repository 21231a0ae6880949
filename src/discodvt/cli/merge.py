"""`discodvt merge`: a whole model from a checkpoint that holds only what was trained."""

from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli import console
from discodvt.cli.options import Overwrite


def merge(
    checkpoint: Annotated[str, typer.Argument(help="Run with model.tune=lora or plan: directory or Hub id.")],
    out: Annotated[Path, typer.Argument(help="Directory of the whole model.")],
    overwrite: Overwrite = False,
) -> None:
    """Merge what was trained into its base: a whole model that needs neither."""
    from discodvt.training.parts import merge as merge_checkpoint

    console.out.print(f"{merge_checkpoint(checkpoint, out, overwrite=overwrite)}: a whole model", highlight=False)
