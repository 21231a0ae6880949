"""The options that say where the shards of a stage are run; the same for every command that has shards."""

from typing import Annotated

import typer

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
