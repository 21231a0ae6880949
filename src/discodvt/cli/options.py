"""Options that several commands have. An option has the name of the parameter it sets, in the command and its stage."""

from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Match = Literal["id", "prompt"]
Resamples = Annotated[int, typer.Option(min=0, help="Bootstrap resamples for the intervals; 0: no intervals.")]
ResampleSeed = Annotated[int, typer.Option(min=0, help="Random seed of the resamples.")]
