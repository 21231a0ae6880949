"""`discodvt codes`: what a model's codes stand for, what plans gain, and several models side by side."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from discodvt.cli import console
from discodvt.cli.console import score_table
from discodvt.cli.options import Json, On, Overwrite, Resamples, Resources, Workers
from discodvt.errors import BadRequest


class _StudyFirst(TyperGroup):
    """`discodvt codes CHECKPOINT CORPUS OUT` is short for `discodvt codes study CHECKPOINT CORPUS OUT`.

    A word much like the name of a command that is no directory is taken for a misspelt command.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        first = args[0] if args else ""
        is_path = Path(first).name != first or Path(first).exists()
        command = bool(get_close_matches(first, self.commands)) and not is_path
        return super().resolve_command(ctx, args if command or first in self.commands else ["study", *args])


HEADINGS = {  # of `compare`, short enough for eighty columns
    "conv_layers": "CNN",
    "tokens_per_code": "tokens",
    "codes_used": "used",
    "code_perplexity": "perplexity",
    "swap_gap": "gap",
}
app = typer.Typer(cls=_StudyFirst, help="Study, measure and compare the codes of trained models.", no_args_is_help=True)

Checkpoint = Annotated[Path, typer.Argument(help="A DiscoDVT: the directory of a `reconstruct` or `prior` run.")]
Corpus = Annotated[Path, typer.Argument(help="An annotated corpus.")]
Out = Annotated[Path, typer.Argument(help="Directory for the results.")]
Split = Annotated[str, typer.Option(help="Which split is read.")]
MaxStories = Annotated[int | None, typer.Option(min=1, help="Read only the first stories of the split.")]
PromptTokens = Annotated[int | None, typer.Option(min=1, help="Subwords of a prompt; default: as trained.")]
StoryTokens = Annotated[int | None, typer.Option(min=8, help="Decoder positions of a story; default: as trained.")]


@app.callback()
def codes() -> None:
    """Study, measure and compare the codes of trained models; without a name, `study`."""


@app.command("study")
def study(
    checkpoint: Checkpoint,
    corpus: Corpus,
    out: Out,
    split: Split = "test",
    max_stories: MaxStories = None,
    example_stories: Annotated[int, typer.Option(min=0, help="Example stories shown on the page.")] = 12,
    prompt_tokens: PromptTokens = None,
    story_tokens: StoryTokens = None,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Describe every code: phrases, markers, place, neighbours, examples; as JSON, CSV and a page."""
    asked = dict(locals())
    from discodvt.evaluation.codes.study import PAGE, study_codes
    from discodvt.report.escaping import one_line
    from discodvt.report.pages import code_page

    del asked["json"]
    found = study_codes(**asked, page=code_page)
    if json:
        console.print_json({name: value for name, value in found.items() if name != "told"})
        return
    console.out.print(_usage(found), highlight=False)
    for entry in found["codes"][:10]:
        phrases = ", ".join(f"“{one_line(gram['text'])}”" for gram in entry["grams"][:2])
        markers = ", ".join(f"{each['marker']} {each['share']:.0%}" for each in entry["markers"])
        console.out.print(f"{entry['code']:>4} {entry['share']:6.1%}  {phrases}  {markers}", highlight=False)
    console.err.print(f"the whole dictionary: {out / PAGE}", soft_wrap=True)


@app.command("measure")
def measure(
    checkpoint: Checkpoint,
    corpus: Corpus,
    out: Out,
    split: Split = "test",
    against: Annotated[Path | None, typer.Option(metavar="DIR", help="A plain seq2seq to compare NLL with.")] = None,
    without_relations: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A model trained without relation loss, to probe as well.")
    ] = None,
    prior: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The prior; default: `prior` in CHECKPOINT, where there is one.")
    ] = None,
    max_stories: MaxStories = None,
    train_stories: Annotated[int, typer.Option(min=10, help="Training stories the probe learns from.")] = 5000,
    prompt_tokens: PromptTokens = None,
    story_tokens: StoryTokens = None,
    resamples: Resamples = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the resamples and of the probe.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Measure reconstruction, what plans gain, relations and the prior on held-out stories, with intervals."""
    asked = dict(locals())
    from discodvt.evaluation.codes.measure import measure_codes

    del asked["json"]
    with console.err.status("opening models") as status:
        found = measure_codes(**asked, status=status.update)
    if json:
        console.print_json(found)
        return
    console.out.print(_usage(found), highlight=False)
    rows = (_figure(name, found["figures"][name]) for name in found["names"])
    console.out.print(score_table(["figure", "value", "95% interval", "unit"], rows))


@app.command("compare")
def compare(
    measured: Annotated[list[Path], typer.Argument(metavar="OUT...", help="Directories `codes measure` wrote.")],
    table: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the table there.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the utilisations there (png, svg, pdf).")
    ] = None,
    json: Json = False,
) -> None:
    """Set measured runs side by side: the effect of the number of CNN layers, for one."""
    from discodvt.evaluation.codes.measure import COMPARED, comparison, read_measured, write_comparison
    from discodvt.report.pages import check_place

    if plot is not None and plot.suffix not in (".png", ".svg", ".pdf"):
        raise BadRequest(f"--plot {plot}: give a file that ends in .png, .svg or .pdf")
    for path in (table, plot):
        if path is not None:
            check_place(path)
    runs = read_measured(measured)
    rows = comparison(runs)
    if table is not None:
        write_comparison(rows, table)
    if plot is not None:
        from discodvt.report.charts import write_utilisation_chart

        write_utilisation_chart(runs, plot)
    if json:
        console.print_json(rows)
    else:
        headings = [HEADINGS.get(name, name.replace("_", " ")) for name in COMPARED]
        console.out.print(score_table(headings, ([_cell(row[name]) for name in COMPARED] for row in rows)))


def _usage(found: dict[str, Any]) -> str:
    usage, model = found["usage"], found["model"]
    return (
        f"{model['name']}: {found['stories']:,} {found['split']} stories, {usage['used']} of {usage['vocabulary']} "
        f"codes used, perplexity {usage['perplexity']:.1f} (at most {usage['ceiling_nats_per_token']:.3f} nats a "
        f"token), utilisation {usage['utilisation']['mean']:.1%}"
    )


def _figure(name: str, figure: dict[str, Any]) -> list[str]:
    ends = "none" if figure["low"] is None else f"{figure['low']:.4f} to {figure['high']:.4f}"
    ends = "too few" if "too_few" in figure else ends
    return [name.replace("_", " "), f"{figure['value']:.4f}", ends, figure["unit"]]


def _cell(value: Any) -> str:
    return f"{value:z.3f}" if isinstance(value, float) else str(value)
