"""`discodvt discourse`: fit a relation classifier, and score stories on the discourse level with it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from discodvt.cli import console
from discodvt.cli.console import compared, interval, number, score_table
from discodvt.cli.options import Against, Json, Match, Overwrite, Resamples, ResampleSeed
from discodvt.cli.train import show_events

app = typer.Typer(help="Judge the discourse of stories: relations and markers.", no_args_is_help=True)


@app.callback()
def discourse() -> None:
    """A classifier learns which marker stood between two clauses; stories are judged by how often it finds theirs."""


@app.command("fit")
def fit(
    corpus: Annotated[Path, typer.Argument(help="An annotated corpus of human stories.")],
    out: Annotated[Path, typer.Argument(help="Directory for the classifier.")],
    encoder: Annotated[
        str, typer.Option(help="small, a DiscoDVT (its posterior), or a checkpoint: google-bert/bert-base-uncased.")
    ] = "small",
    first: Annotated[
        Path | None, typer.Option(help="Train on these pairs first: TSV or JSONL of s1, s2, marker; or a corpus.")
    ] = None,
    drop_unknown: Annotated[bool, typer.Option("--drop-unknown", help="Leave out other markers of --first.")] = False,
    epochs: Annotated[float, typer.Option(min=0.001, max=1e6, help="Passes over the corpus's pairs.")] = 1.0,
    first_epochs: Annotated[float, typer.Option(min=0.001, max=1e6, help="Passes over the pairs of --first.")] = 1.0,
    learning_rate: Annotated[
        float | None, typer.Option(min=0, help="Default: 0.001 for small, 0.00002 for other encoders.")
    ] = None,
    pairs_per_step: Annotated[int, typer.Option(min=1, help="Pairs of one update.")] = 64,
    argument_tokens: Annotated[int, typer.Option(min=4, help="Subwords read of each argument.")] = 64,
    shuffle_labels: Annotated[
        bool, typer.Option("--shuffle-labels", help="A control: learn from shuffled labels.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Fit a relation classifier to the marker pairs of an annotated corpus; stopped, it resumes."""
    asked = dict(locals())
    from discodvt.evaluation.discourse.fit_stage import fit_classifier

    show_events(lambda progress: fit_classifier(**asked), "fitting")


@app.command("score")
def score(
    stories: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORIES...",
            help="Stories: JSONL, Parquet or a corpus directory; several are one system trained with several seeds.",
            show_default=False,
        ),
    ],
    references: Annotated[Path, typer.Option(help="Human stories, of the same kinds; annotated is quicker.")],
    classifier: Annotated[Path, typer.Option(help="A classifier made by `discodvt discourse fit`.")],
    split: Annotated[str, typer.Option(help="Which split of corpus directories.")] = "test",
    against: Against = None,
    by: Annotated[Match, typer.Option("--match", help="How stories of two systems find each other.")] = "id",
    parser: Annotated[str, typer.Option(help="For stories without annotations; see `discodvt annotate`.")] = "bundled",
    swap_arg2: Annotated[
        Literal["none", "any", "same-marker"], typer.Option(help="A control: take Arg2 from another pair.")
    ] = "none",
    resamples: Resamples = 1000,
    seed: ResampleSeed = 0,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Write discourse.json there.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Score the discourse of stories beside human ones: macro-accuracies, relation shares, entropy, divergence."""
    asked = dict(locals())
    from discodvt.evaluation.discourse.score_stage import score_files

    del asked["json"]
    with console.counting("annotating") as progress:
        found = score_files(**asked, progress=progress)
    if json:
        console.print_json(found)
        return
    human = found["human"]["scores"]
    scores = ((name, found["scores"][name]) for name in found["names"])
    rows = (
        [name, number(each), interval(each), number(human[name]) if name in human else "none"] for name, each in scores
    )
    called, others = (" + ".join(path.name for path in files) for files in (stories, against or []))
    title = f"{called}: {found['stories']} stories, {found['n_pairs']:,} marker pairs"
    console.out.print(score_table(["score", "value", "95% interval", "human"], rows, title))
    if against and found["comparison"]:
        rows = ([each["name"], *compared(each), each["stars"]] for each in found["comparison"].values())
        headings = ["score", "a", "b", "a - b", "95% interval", "stars"]
        console.out.print(score_table(headings, rows, f"{called} (a) against {others} (b)"))
