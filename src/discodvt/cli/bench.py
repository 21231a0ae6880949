"""`discodvt bench`: measure each speed and memory promise of the project, as ratios in one run."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from discodvt.cli.console import out, print_json
from discodvt.cli.options import Json

if TYPE_CHECKING:
    from discodvt.bench.rows import BenchRow

app = typer.Typer(help="Measure the project's speed and memory promises.", no_args_is_help=True)

Model = Annotated[str | None, typer.Option(metavar="DIR", help="A writer; default: the storyteller that ships.")]
Rounds = Annotated[int, typer.Option(min=1, help="Interleaved rounds.")]
Scale = Annotated[float, typer.Option(min=0.001, help="Share of the full amount of work.")]


@app.callback()
def bench() -> None:
    """Each row is a ratio measured interleaved in one run, with its range, beside what was promised."""


@app.command("annotate")
def annotate(
    corpus: Annotated[Path | None, typer.Option(help="Take the text from a prepared corpus.")] = None,
    rounds: Rounds = 3,
    scale: Scale = 1.0,
    json: Json = False,
) -> None:
    """Annotation against bare parsing, two workers against one, memory over many stories."""
    from discodvt.bench.annotate import bench_annotate

    _report("annotate", bench_annotate(corpus, rounds=rounds, scale=scale), as_json=json)


@app.command("train")
def train(
    corpus: Annotated[Path | None, typer.Option(help="Take story lengths, for the padding, from a corpus.")] = None,
    rounds: Rounds = 5,
    scale: Scale = 1.0,
    json: Json = False,
) -> None:
    """A training step with a plan against a plain BART step; padding; memory."""
    from discodvt.bench.train import bench_train

    _report("train", bench_train(corpus, rounds=rounds, scale=scale), as_json=json)


@app.command("evaluate")
def evaluate(rounds: Rounds = 3, scale: Scale = 1.0, json: Json = False) -> None:
    """The paper's metrics against NLTK and plain counting."""
    from discodvt.bench.evaluate import bench_evaluate

    _report("evaluate", bench_evaluate(rounds=rounds, scale=scale), as_json=json)


@app.command("generate")
def generate(
    model: Model = None,
    rounds: Rounds = 3,
    scale: Scale = 1.0,
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin no row after so many minutes of CPU time.")] = 6.0,
    json: Json = False,
) -> None:
    """Writing against Hugging Face and CTranslate2, int8, start-up, and stories that depend on their batch."""
    from discodvt.bench.generate import bench_generate

    _report("generate", bench_generate(model, rounds=rounds, scale=scale, minutes=minutes), as_json=json)


@app.command("serve")
def serve(
    model: Model = None,
    stories: Annotated[int, typer.Option(min=10, help="Stories of the memory row.")] = 5_000,
    rounds: Rounds = 3,
    scale: Scale = 1.0,
    minutes: Annotated[float, typer.Option(min=0.0, help="Begin no further row after so many minutes.")] = 15.0,
    json: Json = False,
) -> None:
    """The studio's server: concurrent streams, throughput, cancelling, clients that never read, rewriting, memory."""
    from discodvt.bench.serve import bench_serve

    _report("serve", bench_serve(model, rounds=rounds, scale=scale, stories=stories, minutes=minutes), as_json=json)


@app.command("scale")
def scale(
    model: Model = None,
    stage: Annotated[
        Literal["annotate", "generate"] | None, typer.Option(help="Only this stage; default: both.")
    ] = None,
    scale: Scale = 1.0,
    project: Annotated[
        int | None, typer.Option(min=1, metavar="STORIES", help="Run nothing: what so many stories would cost.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="With --project: worker processes of the cluster.")] = 1000,
    ray: Annotated[
        bool, typer.Option("--ray", help="Instead: annotation on a Ray cluster of this machine against processes.")
    ] = False,
    corpus: Annotated[Path | None, typer.Option(help="With --ray: take the stories from a prepared corpus.")] = None,
    json: Json = False,
) -> None:
    """Annotation and writing from 1,000 stories to 20,000, by one worker and two, beside the simulator's figures."""
    if project is not None:
        _project(stage, project, workers, as_json=json)
        return
    if ray:
        from discodvt.bench.scale_ray import bench_ray

        _report("scale, Ray", bench_ray(corpus, scale=scale), as_json=json)
        return
    from discodvt.bench.scale import STAGES, bench_scale

    stages = STAGES if stage is None else (stage,)
    _report("scale", bench_scale(model, scale=scale, stages=stages), as_json=json)


def _project(stage: str | None, stories: int, workers: int, *, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.table import Table

    from discodvt.bench import scale_model

    stages = scale_model.MEASURED if stage is None else (stage,)
    found = [scale_model.project(each, stories=stories, workers=workers) for each in stages]
    if as_json:
        print_json([asdict(each) for each in found])
        return
    heading, *rows = scale_model.projection_table(found)
    view = Table(*heading)
    for row in rows:
        view.add_row(*row)
    out.print(view)


def _report(title: str, rows: Iterable["BenchRow"], *, as_json: bool) -> None:
    """Each row as soon as it is measured; JSON at the end."""
    if as_json:
        print_json([row.as_dict() for row in rows])
        return
    out.print(f"bench {title}: ratio (range over rounds), promise, row")
    for row in rows:
        out.print(row.as_line())
