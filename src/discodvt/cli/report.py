"""`discodvt report`: runs of several systems as one page, and as tables and figures for a paper."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from discodvt.cli.console import err, out, print_json


def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Directories of scores: DIR or NAME=DIR.")],
    target: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the report.")],
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    paper: Annotated[
        Literal["wikiplots", "writingprompts"] | None,
        typer.Option(help="Put the paper's numbers on this dataset beside runs of its scale."),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Prompts whose stories are shown side by side.")] = 3,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what DIR holds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")] = False,
) -> None:
    """Make a page, tables and figures of the outputs of `evaluate`, `discourse score` and `codes`.

    Runs of one name are one system; `X w/o Y` is shown as an ablation of X; a system scored against itself is the
    references.
    """
    from discodvt.report.report_stage import PAGE, write_report

    found = write_report(runs, target, title=title, paper=paper, examples=examples, overwrite=overwrite)
    if json:
        print_json({"page": str(target / PAGE)} | found)
        return
    out.print(str(target / PAGE))
    err.print(f"{len(found['sections'])} sections, {len(found['tables'])} tables, {len(found['figures'])} figures")
