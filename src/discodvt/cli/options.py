"""Options that several commands have. An option has the name of the parameter it sets, in the command and its stage."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what the output directory holds.")]
Match = Literal["id", "prompt"]
Against = Annotated[list[Path] | None, typer.Option(help="Another system's stories to the same prompts; repeatable.")]
Resamples = Annotated[int, typer.Option(min=0, help="Bootstrap resamples for the intervals; 0: no intervals.")]
ResampleSeed = Annotated[int, typer.Option(min=0, help="Random seed of the resamples.")]

# A recipe, and keys that are changed in it.
Recipe = Annotated[str, typer.Argument(help="A recipe: a TOML file, or a name of `discodvt recipes`.")]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=VALUE", help="Change a key of the recipe; repeatable.")
]

# Where the shards of a stage are run.
On = Annotated[
    str,
    typer.Option(
        metavar="local|ray|ray:ADDRESS",
        help="Where shards are run: processes of this machine, or Ray (joins the cluster that runs, else starts one).",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Shards at a time; without it one locally, and with Ray what the cluster has room for."),
]
Resources = Annotated[str, typer.Option(help="With --on ray: what a task needs, such as cpus=1,gpus=0.5,memory=2GB.")]
