"""`discodvt evaluate`: score stories against references, and one system against another."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from discodvt.cli.console import err, out, print_json
from discodvt.cli.places import On, Resources, Workers
from discodvt.cli.score_table import interval, number, score_table

ARROWS = {"higher": "↑", "lower": "↓", "none": ""}


def evaluate(
    stories: Annotated[Path, typer.Argument(metavar="STORIES.jsonl", help="Stories as `discodvt generate` writes.")],
    references: Annotated[Path, typer.Option(help="A corpus directory, or a JSONL or Parquet file of stories.")],
    split: Annotated[str, typer.Option(help="Which split of a corpus directory.")] = "test",
    against: Annotated[Path | None, typer.Option(help="Another system's stories to the same prompts.")] = None,
    mode: Annotated[Literal["paper", "modern"], typer.Option(help="The paper's scores, or modern ones.")] = "paper",
    by: Annotated[Literal["id", "prompt"], typer.Option("--match", help="How a story finds its reference.")] = "id",
    drop_unmatched: Annotated[bool, typer.Option("--drop-unmatched", help="Leave out what has no match.")] = False,
    look_back: Annotated[
        Literal["paper", "code"], typer.Option(help="rep-l looks back l tokens, or l - 1 as the authors' script.")
    ] = "paper",
    mauve: Annotated[str | None, typer.Option(metavar="MODEL", help="Add MAUVE, in this model's features.")] = None,
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap resamples for the intervals; 0: no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the resamples.")] = 0,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    target: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write scores.json there.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what DIR holds.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")] = False,
) -> None:
    """Score stories against their references, each score with its interval and signature."""
    from discodvt.errors import BadRequest
    from discodvt.evaluation.evaluate_files import evaluate_files

    if mauve is not None and mode != "modern":
        raise BadRequest("--mauve needs --mode modern")
    found = evaluate_files(
        stories,
        references,
        out=target,
        against=against,
        split=split,
        by=by,
        drop_unmatched=drop_unmatched,
        mode=mode,
        look_back=look_back,
        mauve_model=mauve,
        resamples=resamples,
        seed=seed,
        overwrite=overwrite,
        workers=workers,
        on=on,
        resources=resources,
    )
    if found["dropped"]:
        err.print(f"{found['dropped']} stories without a reference left out")
    if found["unused"]:
        err.print(f"{found['unused']} references without a story left out")
    if json:
        print_json(found)
    elif found["comparison"]:
        out.print(_comparison(found, stories.name, against.name if against else ""))
    else:
        out.print(_scores(found, stories.name))
        if found.get("utilisation"):
            out.print(f"code utilisation of their plans: {found['utilisation']['mean']:.1%}", highlight=False)


def _scores(found: dict[str, Any], name: str) -> Table:
    table = score_table(f"{name}: {found['stories']} stories, {found['mode']} mode", "value", "95% interval")
    for score in (found["scores"][name] for name in found["names"]):
        table.add_row(_name(score), number(score, "value"), interval(score))
    return table


def _comparison(found: dict[str, Any], a: str, b: str) -> Table:
    title = f"{a} (a) against {b} (b): {found['stories']} stories, {found['mode']} mode"
    table = score_table(title, "a", "b", "a - b", "95% interval", "p boot", "p t-test")
    for each in (found["comparison"][name] for name in found["names"] if name in found["comparison"]):
        sides = (number(each["a"], "value"), number(each["b"], "value"), number(each, "difference"))
        stars = f"{_p(each['p_t_test'])} {each['stars']:2}"
        table.add_row(_name(each), *sides, interval(each), _p(each["p_bootstrap"]), stars)
    return table


def _name(score: dict[str, Any]) -> str:
    return f"{score['name']} {ARROWS[score['direction']]}".rstrip()


def _p(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}" if value >= 0.001 else "<0.001"
