"""`discodvt grid`: systems x seeds x corpora, trained, written, evaluated, compared, reported."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, On, Resources
from discodvt.errors import BadRequest, WorkFailed

if TYPE_CHECKING:
    from rich.table import Table

    from discodvt.experiments.grid_costs import Estimate
    from discodvt.experiments.grid_steps import Plan, Step


def grid(
    grid: Annotated[
        str, typer.Argument(metavar="GRID.toml", help="A grid: a TOML file, or the name of one that ships.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory of the grid; default: `out` of the grid.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Steps at a time.")] = 1,
    on: On = "local",
    resources: Resources = "",
    only: Annotated[list[str] | None, typer.Option(metavar="SYSTEM", help="Only this system; repeatable.")] = None,
    seed: Annotated[
        list[int] | None, typer.Option(min=0, metavar="SEED", help="Only this seed; repeatable.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, with time and disk, and stop.")] = False,
    json: Json = False,
) -> None:
    """Train, write, evaluate and compare systems over seeds and corpora; ends in the paper's tables and figures.

    Finished steps are skipped, killed ones resume, a failed one is named and the rest goes on.
    """
    from discodvt.executors import Place
    from discodvt.experiments.grid import read_grid
    from discodvt.experiments.grid_costs import estimate
    from discodvt.experiments.grid_plan import make_plan
    from discodvt.experiments.grid_report import write_grid_report
    from discodvt.experiments.grid_run import GridRun, locked_grid
    from discodvt.mirrored import working_directory
    from discodvt.storage import RemotePath

    place = Place(on, None, resources)
    asked = read_grid(grid, only=only or [], seeds=seed or [])
    directory = out or asked.out
    if directory is None:
        raise BadRequest(f"{grid}: no output directory; give --out, or `out` in the grid")
    if isinstance(directory, RemotePath) and on != "local":
        raise BadRequest(f"{directory}: steps on nodes write into one directory; give one that all nodes see", "on")
    with working_directory(directory) as (here, put):
        plan = make_plan(asked, here)
        with console.err.status("timing a few steps"):
            costs = estimate(plan, jobs=jobs)
        if not json or not dry_run:
            (console.out if dry_run else console.err).print(_planned(plan, costs), highlight=False)
        if dry_run:
            if json:
                console.print_json(costs.as_dict(plan))
            return
        with locked_grid(here):
            work = GridRun(plan, jobs=jobs, place=place)
            _show(work, costs, lambda: put(unfinished=[step.output for step in plan.steps if not step.done]))
            reports = [directory.joinpath(*path.relative_to(here).parts) for path in write_grid_report(plan)]
        put(unfinished=[step.output for step in plan.steps if not step.done])
    summary = {
        "steps": len(plan.steps),
        "failed": [{"step": step.name, "message": message} for step, message in work.failed.items()],
        "left_out": [step.name for step in work.left_out],
        "reports": [str(path) for path in reports],
    }
    if json:
        console.print_json(summary)
    else:
        for path in reports:
            console.out.print(f"report: {path / 'report.html'}", highlight=False, soft_wrap=True)
    if work.failed:
        step, message = next(iter(work.failed.items()))
        more = f", and {len(work.failed) - 1} more failed" if len(work.failed) > 1 else ""
        raise WorkFailed(
            f"{step.name}: {message}{more}; {len(work.left_out)} steps need it and were left out, all others are done; "
            "the same command tries again"
        )


def _planned(plan: "Plan", costs: "Estimate") -> "Table":
    """What is to be done, by kind of step."""
    from rich.table import Table

    table = Table(title=f"{len(plan.rows)} systems x corpora, {sum(len(row.cells) for row in plan.rows)} cells")
    for name in ("step", "to do", "done", "time", "disk"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for kind in dict.fromkeys(step.kind for step in plan.steps):
        steps = [step for step in plan.steps if step.kind == kind]
        todo = [step for step in steps if not step.done]
        seconds, size = sum(costs.seconds[step] for step in todo), sum(costs.bytes[step] for step in todo)
        table.add_row(kind, str(len(todo)), str(len(steps) - len(todo)), _time(seconds), _size(size))
    total = sum(not step.done for step in plan.steps)
    table.add_section()
    table.add_row("all", str(total), str(len(plan.steps) - total), _time(costs.wall), _size(costs.total_bytes))
    table.caption = f"the last line is the time with {costs.jobs} at a time, estimated from timed steps"
    return table


def _show(work: Any, costs: "Estimate", put: Callable[[], None]) -> None:
    """A live table on a terminal, else a line for every step that ends; `put` is called after each that is done."""
    from rich.live import Live

    started: dict[Step, float] = {}
    if not console.err.is_terminal:
        for event in work.run():
            if event.state == "done":
                put()
            if event.state in ("done", "failed", "left out"):
                message = f": {event.message}" if event.message else ""
                took = f" in {_time(event.seconds)}" if event.seconds else ""
                console.err.print(f"{event.step.name}: {event.state}{took}{message}", highlight=False, soft_wrap=True)
        return
    import time

    with Live(console=console.err, refresh_per_second=2) as live:
        for event in work.run():
            if event.state == "done":
                put()
            if event.state == "start":
                started[event.step] = time.monotonic()
            elif event.step is not None:
                started.pop(event.step, None)
            live.update(_live_table(work, started, costs))


def _live_table(work: Any, started: "dict[Step, float]", costs: "Estimate") -> "Table":
    """A row for each system and corpus: how far it is, and what is at work now."""
    import time

    from rich.table import Table

    table = Table()
    for name in ("system", "corpus", "steps", "state"):
        table.add_column(name, justify="right" if name == "steps" else "left")
    for row in work.plan.rows:
        steps = row.steps
        done = sum(step.done for step in steps)
        now = [
            f"{step.name.partition(': ')[2]} ({_time(time.monotonic() - began)} of about {_time(costs.seconds[step])})"
            for step, began in started.items()
            if step in steps
        ]
        failed = [f"failed: {step.name}: {work.failed[step]}" for step in steps if step in work.failed]
        state = "; ".join([*failed, *now]) or ("done" if done == len(steps) else "")
        table.add_row(row.system, row.corpus, f"{done}/{len(steps)}", state)
    left = sum(costs.seconds[step] for step in work.plan.steps if not step.done) / costs.jobs
    table.caption = f"about {_time(left)} left"
    return table


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _size(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size > 1e9 else f"{size / 1e6:.1f} MB"
