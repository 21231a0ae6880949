"""`discodvt judge`: blind studies in which people compare stories in pairs (the paper's human evaluation)."""

from pathlib import Path
from typing import Annotated

import typer

from discodvt.cli import console
from discodvt.cli.options import Json

app = typer.Typer(help="Human evaluation: make a blind study, serve it to judges, score it.", no_args_is_help=True)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of the study.")]
Win = Annotated[float, typer.Option(help="Share of judgements that prefer the first system.")]
Tie = Annotated[float, typer.Option(help="Share of ties.")]
Fidelity = Annotated[float, typer.Option(help="How often a judge gives an item's common verdict; kappa is its square.")]


@app.command()
def make(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="Study file.")],
    out: Annotated[Path, typer.Argument(help="Directory for the study.")],
    json: Json = False,
) -> None:
    """Make a study: items with opaque ids, the key that is never served, the rules; fixed from here on."""
    from discodvt.judging.make_stage import make_study

    made = make_study(study, out)
    if json:
        console.print_json(made.facts)
        return
    already = "; it was there already" if made.already_complete else ""
    console.out.print(f"{out}: {made.facts['items']} items, {made.facts['checks']} checks{already}")


@app.command()
def serve(
    directory: Directory,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8322,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another name of this server; repeatable.")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Serve a study to judges until Ctrl-C; answers are kept as they come, judges can come back to their link."""
    from discodvt.judging.study_server import serve_study

    serve_study(
        directory,
        host=host,
        port=port,
        allow_hosts=tuple(allow_host or ()),
        announce=lambda address: console.out.print(address, highlight=False),
        open_browser=browser,
    )


@app.command()
def score(
    directory: Directory,
    answers: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Answers; default: those of the study.")
    ] = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Score the simulated judges instead.")] = False,
    json: Json = False,
) -> None:
    """Score a study: majorities, sign test, Holm, agreement, side bias; with and without excluded judges."""
    from discodvt.judging.score_stage import score_study
    from discodvt.report.human_section import human_summary, write_human_tables

    scores = score_study(directory, answers=answers, simulated=simulated)
    written = write_human_tables(directory / ("simulated-scores" if simulated else "scores"), scores)
    if json:
        console.print_json(scores)
        return
    console.out.print(human_summary(scores), highlight=False)
    console.err.print(f"tables: {', '.join(map(str, written))}", highlight=False)


@app.command()
def simulate(
    directory: Directory,
    judges: Annotated[int, typer.Option(min=1, max=10_000, help="Number of simulated judges.")] = 3,
    win: Win = 0.5,
    tie: Tie = 0.1,
    fidelity: Fidelity = 0.65,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
) -> None:
    """Answer a study with simulated judges, to try it out; kept apart from people's answers and labelled everywhere."""
    from discodvt.judging.make_stage import open_study
    from discodvt.judging.simulation import Preference, simulate

    answered = simulate(open_study(directory), Preference(win, tie, fidelity), judges=judges, seed=seed)
    console.out.print(
        f"{directory}: SIMULATED judges, {answered} items answered; score them with --simulated", highlight=False
    )


@app.command()
def power(
    items: Annotated[int, typer.Option(min=1, max=100_000, help="Items of each pair of systems.")] = 100,
    judges: Annotated[int, typer.Option(min=1, max=99, help="Judges of each item.")] = 3,
    win: Win = 0.5,
    tie: Tie = 0.1,
    fidelity: Fidelity = 0.65,
    studies: Annotated[int, typer.Option(min=1, max=100_000, help="Simulated studies.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    json: Json = False,
) -> None:
    """Plan a study: how often its sign test would find a preference of this size, by simulated judges."""
    from discodvt.judging.simulation import Preference
    from discodvt.judging.simulation import power as power_of
    from discodvt.judging.study_statistics import decided_items_needed

    preference = Preference(win, tie, fidelity)
    found = power_of(preference, items=items, judges=judges, studies=studies, seed=seed)
    needed = {f"{share:.2f}": decided_items_needed(share) for share in (0.7, 0.65, 0.6, 0.55)}
    if json:
        console.print_json(
            {"simulated": True, "power": found, "kappa": preference.kappa, "decided_items_needed": needed}
        )
        return
    console.out.print(f"power {found:.3f} (two-sided sign test over {items} items, .05; {studies} simulated studies)")
    listed = ", ".join(f"{count} at {share}" for share, count in needed.items())
    console.out.print(f"decided items for power 0.8, by share of wins: {listed}")
