"""`discodvt discourse`: fit a relation classifier, and score stories on the discourse level with it."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.table import Table

from discodvt.cli.console import out, print_json, progress
from discodvt.cli.score_table import interval, number, score_table
from discodvt.cli.train import show_events

app = typer.Typer(help="Judge the discourse of stories: relations and markers.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what the directory holds.")]


@app.callback()
def discourse() -> None:
    """A classifier learns which marker stood between two clauses; stories are judged by how often it finds theirs."""


@app.command("fit")
def fit(
    corpus: Annotated[Path, typer.Argument(help="An annotated corpus of human stories.")],
    target: Annotated[Path, typer.Argument(metavar="OUT", help="Directory for the classifier.")],
    encoder: Annotated[
        str,
        typer.Option(help="small, a DiscoDVT (its posterior), or a checkpoint: google-bert/bert-base-uncased."),
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
    seed: Annotated[int, typer.Option(min=0)] = 0,
    overwrite: Overwrite = False,
) -> None:
    """Fit a relation classifier to the marker pairs of an annotated corpus; stopped, it resumes."""
    from discodvt.evaluation.discourse.fit_stage import fit_classifier

    events = fit_classifier(
        corpus,
        target,
        encoder=encoder,
        first=first,
        drop_unknown=drop_unknown,
        epochs=epochs,
        first_epochs=first_epochs,
        learning_rate=learning_rate,
        pairs_per_step=pairs_per_step,
        argument_tokens=argument_tokens,
        shuffle_labels=shuffle_labels,
        seed=seed,
        overwrite=overwrite,
    )
    show_events(events, "fitting")


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
    against: Annotated[
        list[Path] | None, typer.Option(help="Another system's stories to the same prompts; repeatable.")
    ] = None,
    by: Annotated[
        Literal["id", "prompt"], typer.Option("--match", help="How stories of two systems find each other.")
    ] = "id",
    parser: Annotated[str, typer.Option(help="For stories without annotations; see `discodvt annotate`.")] = "bundled",
    swap_arg2: Annotated[
        Literal["none", "any", "same-marker"], typer.Option(help="A control: take Arg2 from another pair.")
    ] = "none",
    resamples: Annotated[
        int, typer.Option(min=0, help="Bootstrap resamples for the intervals; 0: no intervals.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the resamples.")] = 0,
    target: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write discourse.json there.")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Score the discourse of stories beside human ones: macro-accuracies, relation shares, entropy, divergence."""
    from discodvt.evaluation.discourse.score_stage import score_files

    with progress() as bar:
        task = bar.add_task("annotating", total=None, rate="")
        found = score_files(
            stories,
            references,
            classifier,
            out=target,
            against=against,
            split=split,
            by=by,
            parser=parser,
            swap_arg2=swap_arg2,
            resamples=resamples,
            seed=seed,
            overwrite=overwrite,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if json:
        print_json(found)
        return
    called = " + ".join(path.name for path in stories)
    out.print(_scores(found, called))
    if found["comparison"]:
        out.print(_comparison(found["comparison"], called, " + ".join(path.name for path in against or [])))


def _scores(found: dict[str, Any], title: str) -> Table:
    table = score_table(
        f"{title}: {found['stories']} stories, {found['n_pairs']:,} marker pairs", "value", "95% interval", "human"
    )
    for name in found["names"]:
        score, human = found["scores"][name], found["human"]["scores"].get(name)
        table.add_row(name, number(score, "value"), interval(score), number(human, "value") if human else "none")
    return table


def _comparison(compared: dict[str, Any], a: str, b: str) -> Table:
    table = score_table(f"{a} (a) against {b} (b)", "a", "b", "a - b", "95% interval", "stars")
    for each in compared.values():
        sides = (number(each["a"], "value"), number(each["b"], "value"), number(each, "difference"))
        table.add_row(each["name"], *sides, interval(each), each["stars"])
    return table
