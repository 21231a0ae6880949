"""`discodvt report`: runs of several systems as one page, and as tables and figures for a paper."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, Overwrite


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories of scores: DIR or NAME=DIR.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory for the report.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    paper: Annotated[
        Literal["wikiplots", "writingprompts"] | None,
        typer.Option(help="Put the paper's numbers on this dataset beside runs of its scale."),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Prompts whose stories are shown side by side.")] = 3,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Make a page, tables and figures of the outputs of `evaluate`, `discourse score` and `codes`.

    Runs of one name are one system; `X w/o Y` is shown as an ablation of X; a system scored against itself is the
    references.
    """
    from discodvt.report.report_stage import PAGE, write_report

    found = write_report(runs, out, title=title, paper=paper, examples=examples, overwrite=overwrite)
    if json:
        console.print_json({"page": str(out / PAGE)} | found)
        return
    console.out.print(str(out / PAGE))
    counts = (f"{len(found[kind])} {kind}" for kind in ("sections", "tables", "figures"))
    console.err.print(", ".join(counts))
