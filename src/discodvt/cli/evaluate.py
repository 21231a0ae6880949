"""`discodvt evaluate`: score stories against references, and one system against another."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from discodvt.cli import console
from discodvt.cli.console import compared, interval, number, score_table
from discodvt.cli.options import Against, Json, Match, On, Overwrite, Resamples, ResampleSeed, Resources, Workers

ARROWS = {"higher": " ↑", "lower": " ↓", "none": ""}


def evaluate(
    stories: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORIES.jsonl...",
            help="Stories as `discodvt generate` writes; several files are one system trained with several seeds.",
            show_default=False,
        ),
    ],
    references: Annotated[Path, typer.Option(help="A corpus directory, or a JSONL or Parquet file of stories.")],
    split: Annotated[str, typer.Option(help="Which split of a corpus directory.")] = "test",
    against: Against = None,
    mode: Annotated[Literal["paper", "modern"], typer.Option(help="The paper's scores, or modern ones.")] = "paper",
    by: Annotated[Match, typer.Option("--match", help="How a story finds its reference.")] = "id",
    drop_unmatched: Annotated[bool, typer.Option("--drop-unmatched", help="Leave out what has no match.")] = False,
    look_back: Annotated[
        Literal["paper", "code"], typer.Option(help="rep-l looks back l tokens, or l - 1 as the authors' script.")
    ] = "paper",
    mauve_model: Annotated[
        str | None, typer.Option("--mauve", metavar="MODEL", help="Add MAUVE, in this model's features.")
    ] = None,
    resamples: Resamples = 1000,
    seed: ResampleSeed = 0,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write scores.json there.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Score stories against their references, each score with its interval and signature."""
    asked = dict(locals())
    from discodvt.errors import BadRequest
    from discodvt.evaluation.evaluate_files import evaluate_files

    if mauve_model is not None and mode != "modern":
        raise BadRequest("--mauve needs --mode modern")
    del asked["json"]
    found = evaluate_files(**asked)
    if found["dropped"]:
        console.err.print(f"{found['dropped']} stories without a reference left out")
    if found["unused"]:
        console.err.print(f"{found['unused']} references without a story left out")
    if json:
        console.print_json(found)
    elif against and found["comparison"]:
        console.out.print(_comparison(found, f"{_called(stories)} (a) against {_called(against)} (b)"))
    else:
        console.out.print(_scores(found, _called(stories)))
        if found.get("utilisation"):
            mean = found["utilisation"]["mean"]
            console.out.print(f"code utilisation of their plans: {mean:.1%}", highlight=False)


def _called(files: list[Path]) -> str:
    return " + ".join(path.name for path in files)


def _scores(found: dict[str, Any], title: str) -> Table:
    scores = (found["scores"][name] for name in found["names"])
    rows = ([_name(score), number(score), interval(score)] for score in scores)
    return score_table(["score", "value", "95% interval"], rows, f"{title}: {_counted(found)}")


def _comparison(found: dict[str, Any], title: str) -> Table:
    each = (found["comparison"][name] for name in found["names"] if name in found["comparison"])
    rows = (
        [_name(score), *compared(score), _p(score["p_bootstrap"]), f"{_p(score['p_t_test'])} {score['stars']:2}"]
        for score in each
    )
    headings = ["score", "a", "b", "a - b", "95% interval", "p boot", "p t-test"]
    return score_table(headings, rows, f"{title}: {_counted(found)}")


def _counted(found: dict[str, Any]) -> str:
    return f"{found['stories']} stories, {found['mode']} mode"


def _name(score: dict[str, Any]) -> str:
    return f"{score['name']}{ARROWS[score['direction']]}"


def _p(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}" if value >= 0.001 else "<0.001"
