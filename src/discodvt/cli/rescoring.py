"""`discodvt rescoring`: what of Aristotelian Rescoring is no training: plots of a corpus, the writer of all parts."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, Overwrite
from discodvt.errors import BadRequest

app = typer.Typer(help="Aristotelian Rescoring: plots of a corpus, and a writer of its parts.", no_args_is_help=True)


@app.callback()
def rescoring() -> None:
    """Plots first, stories from plots: a baseline of the paper (Goldfarb-Tarrant et al. 2020)."""


@app.command("plots")
def plots(
    corpus: Annotated[Path, typer.Argument(help="A corpus directory.")],
    out: Annotated[Path, typer.Argument(help="Directory for plots, tagged stories and pairs.")],
    parser: Annotated[str, typer.Option(help="Of UD v2 trees: bundled or stanza.")] = "bundled",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the changed continuations.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Read the plots of a corpus: what the two writers and the rescorers learn from."""
    asked = dict(locals())
    from discodvt.baselines.plot_corpus import make_plots

    del asked["json"]
    with console.err.status("reading plots"):
        facts = make_plots(**asked)
    if json:
        console.print_json(facts)
    else:
        counts = (f"{name.replace('_', ' ')} {count:,}" for name, count in facts.items())
        console.out.print(", ".join(counts), highlight=False)


@app.command("join")
def join(
    out: Annotated[Path, typer.Argument(help="Directory of the writer.")],
    plots: Annotated[Path, typer.Option(metavar="DIR", help="Made by `discodvt rescoring plots`.")],
    plot_writer: Annotated[Path, typer.Option(metavar="DIR", help="A run of the `plot-writer` stage.")],
    story_writer: Annotated[Path, typer.Option(metavar="DIR", help="A run of the `story-writer` stage.")],
    scorer: Annotated[
        list[str], typer.Option(metavar="NAME=DIR", help="A run of the `scorer` stage; repeatable.", show_default=False)
    ],
    mode: Annotated[
        Literal["plot", "token", "plain"],
        typer.Option(help="Rescore whole plots, every token (slow, as published), or nothing."),
    ] = "plot",
    candidates: Annotated[int, typer.Option(min=1, help="Plots to choose from with --mode plot.")] = 16,
    min_tokens: Annotated[int, typer.Option(min=1, help="Subwords of a plot.")] = 55,
    max_tokens: Annotated[int, typer.Option(min=2, help="Subwords of a plot.")] = 250,
    max_pairs: Annotated[int, typer.Option(min=1, help="Plots the weights are learned from.")] = 500,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the plots the weights are learned from.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Learn the weights of the rescorers and put writers and rescorers into one directory, which writes stories."""
    asked = dict(locals())
    from discodvt.baselines.aristotle import join as join_parts

    named = dict(_named(text) for text in scorer)
    if len(named) < len(scorer):
        raise BadRequest("`scorer`: a name is there twice; name each once", "scorer")
    del asked["json"], asked["scorer"]
    with console.err.status("learning weights"):
        facts = join_parts(**asked, scorers=named)
    if json:
        console.print_json(facts)
    else:
        weights = ", ".join(f"{name} {weight:.3f}" for name, weight in facts["weights"].items())
        console.out.print(f"weights: {weights}", highlight=False)


@app.command("measure")
def measure(
    joined: Annotated[Path, typer.Argument(metavar="DIR", help="Made by `discodvt rescoring join`.")],
    plots: Annotated[Path, typer.Argument(metavar="PLOTS", help="Made by `discodvt rescoring plots`.")],
    out: Annotated[Path, typer.Argument(help="Directory for measured.json.")],
    judge: Annotated[Path, typer.Option(metavar="DIR", help="A run of the `scorer` stage on pairs/judge.")],
    prompts: Annotated[int, typer.Option(min=2, help="Held-out prompts that are written to.")] = 50,
    max_pairs: Annotated[int, typer.Option(min=10, help="Pairs of each kind, to learn from and held out.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of plots, stories and intervals.")] = 0,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Whether rescorers know more than a bag of words, plots gain by them, and stories follow their plots."""
    asked = dict(locals())
    from discodvt.evaluation.rescoring import measure as measure_rescoring

    del asked["json"]
    with console.counting("measuring") as progress:
        figures = measure_rescoring(**asked, progress=progress)
    if json:
        console.print_json(figures)
    else:
        for name, figure in figures.items():
            said = f"{name}: {figure['value']:.3f} ({figure['low']:.3f} to {figure['high']:.3f}), n {figure['n']}"
            console.out.print(said, highlight=False)


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path or "/" in name:
        raise BadRequest(f"`scorer` {text}: write it as NAME=DIR", "scorer")
    return name, Path(path)
