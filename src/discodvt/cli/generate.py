"""`discodvt generate`: stories to prompts, each written along a plan."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from rich.text import Text

from discodvt.cli.console import err, out, print_line, progress
from discodvt.cli.options import On, Resources, Workers
from discodvt.errors import BadRequest, Interrupted

if TYPE_CHECKING:
    from discodvt.writing import Request, SamplingParams, Story, StoryWriter
    from discodvt.writing.prompts import Prompt

MOST_WARNINGS = 5
MOST_STORIES = 10_000_000


def generate(
    prompt: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT...", help="A title or a first sentence.", show_default=False)
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(help="Prompts: text, one a line (- for standard input); or JSONL, CSV, Parquet.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="DIR|HUB_ID", help="A checkpoint; default: the storyteller that ships.")
    ] = None,
    stories_each: Annotated[int, typer.Option("-n", help="Stories to each prompt.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    plan: Annotated[str | None, typer.Option(metavar="CODES", help="The plan, such as '12 7 201'.")] = None,
    plan_from: Annotated[
        str | None, typer.Option(metavar="FILE", help="Take the plan of a text, or of a story: stories.jsonl#ID.")
    ] = None,
    begin_with: Annotated[
        str | None, typer.Option(metavar="TEXT|@FILE", help="How the story begins; it is written on from there.")
    ] = None,
    lock: Annotated[
        list[str] | None, typer.Option(metavar="PLACE:CODE", help="A code of the plan, the others are drawn; repeat.")
    ] = None,
    wish: Annotated[
        str | None, typer.Option(metavar="PLACE:MARKER", help="A relation at a place of the plan, such as 5:because.")
    ] = None,
    best_of: Annotated[
        int | None, typer.Option(min=1, max=64, metavar="K", help="Write K candidates, keep the best; 8 with a wish.")
    ] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Minimum story tokens; default: the model's.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Maximum story tokens; default: the model's.")] = None,
    min_codes: Annotated[int | None, typer.Option(help="Minimum codes of a plan; default: the model's.")] = None,
    max_codes: Annotated[int | None, typer.Option(help="Maximum codes of a plan; default: the model's.")] = None,
    words: Annotated[
        int | None,
        typer.Option(metavar="N", help="About N words, also more than the model's positions hold: in windows."),
    ] = None,
    top_p: Annotated[float | None, typer.Option(help="Nucleus sampling; default 0.9.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Top-k sampling; default: off.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Minimum probability, relative to the likeliest token; default: off.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Sampling temperature; default: the model's, or 1.")] = None,
    plan_temperature: Annotated[
        float | None, typer.Option(help="Sampling temperature of plans; default: the model's, or 1.")
    ] = None,
    plan_strength: Annotated[
        float | None, typer.Option(help="How firmly the text follows its plan, 0: not; default: the model's, or 1.")
    ] = None,
    prompt_bias: Annotated[
        float | None,
        typer.Option(
            help="Nats by which words of the prompt are favoured until the story has them; default: the model's, or 0."
        ),
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Above 1 lowers tokens already used; default: the model's, or 1.")
    ] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="Greedy decoding instead of sampling.")] = False,
    batch_size: Annotated[int, typer.Option(help="Stories written at a time; does not change them.")] = 32,
    int8: Annotated[bool, typer.Option("--int8", help="Quantize large weights to 8 bits (CPU).")] = False,
    engine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="bart, llama or transformers; default: the fastest that runs the model."),
    ] = None,
    workers: Workers = None,
    on: On = "local",
    resources: Resources = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Keep the stories there; stopped, it resumes.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file and the page.")] = False,
    show_plan: Annotated[bool, typer.Option("--show-plan", help="Show each code beside the text it governs.")] = False,
    html: Annotated[Path | None, typer.Option(help="Also write the stories and their plans as a page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only JSON on standard output, a line a story.")] = False,
) -> None:
    """Write stories to prompts: a plan is sampled for each, and the story written along it."""
    if plan is not None and plan_from is not None:
        raise BadRequest("--plan and --plan-from: choose one")
    if html is not None:
        from discodvt.report import pages

        pages.check_page(html, overwrite=overwrite)
        if output is not None and html.resolve() == output.resolve():
            raise BadRequest(f"--output and --html are both {html}; give each a file of its own")
    asked = _prompts(prompt, prompts, stories_each)

    from discodvt.writing import Request, SamplingParams, StoryWriter
    from discodvt.writing.generate_stage import place_of_writing, write_stories
    from discodvt.writing.prompts import read_plan, typed_beginning, typed_locks, typed_pairs, typed_plan

    given = None if plan is None else typed_plan(plan)
    locks, beginning = typed_locks(lock or []), typed_beginning(begin_with) if begin_with is not None else ""
    if locks and (plan is not None or plan_from is not None):
        raise BadRequest("--lock: for plans that are drawn; with --plan or --plan-from change the code there")
    wished = None
    if wish is not None:
        from discodvt.writing.candidates import Wish

        wished = Wish(*typed_pairs([wish], "wish", "5:because")[0]).checked()
    options: dict[str, Any] = {
        "min_tokens": min_tokens, "max_tokens": max_tokens, "min_codes": min_codes, "max_codes": max_codes,
        "top_p": top_p, "top_k": top_k, "min_p": min_p, "temperature": temperature,
        "plan_temperature": plan_temperature, "plan_strength": plan_strength, "words": words,
        "repetition_penalty": repetition_penalty, "prompt_bias": prompt_bias,
    }  # fmt: skip
    params = SamplingParams(greedy=greedy, **{name: value for name, value in options.items() if value is not None})
    total = len(asked) * stories_each
    place_of_writing(on, workers, resources, output=output)
    live = total == 1 and best_of is None and wished is None and out.is_terminal and not (json or output)
    in_file = output is not None and total > 1
    view = "live" if live else "json" if json else "plan" if show_plan else "none" if in_file else "text"
    with _interrupted(kept=output is not None), _warning_lines():
        writer = StoryWriter.from_pretrained(model, int8=int8, engine=engine)
        meanings = pages.read_meanings(writer.directory) if html is not None else {}
        given = given if plan_from is None else read_plan(plan_from, writer)
        if live:
            request = Request(asked[0].text, plan=given, seed=seed, id=asked[0].id, locks=locks, begin_with=beginning)
            stories = _stream(writer, request, params, show_plan=show_plan)
        else:
            stories = write_stories(
                writer,
                asked,
                params,
                stories_each=stories_each,
                seed=seed,
                plan=given,
                locks=locks,
                begin_with=beginning,
                best_of=best_of,
                wish=wished,
                batch_size=batch_size,
                output=output,
                overwrite=overwrite,
                model=model,
                workers=workers,
                on=on,
                resources=resources,
            )
        shown = _show_all(stories, total, view, keep=html is not None)
    if html is not None:
        pages.write_page(html, pages.story_page(shown, meanings=meanings), overwrite=overwrite)
        err.print(f"page written to {html}", highlight=False)
    if output is not None and not json:
        err.print(f"{total:,} {'story' if total == 1 else 'stories'} in {output}", highlight=False)


def _prompts(typed: list[str] | None, file: Path | None, stories_each: int) -> "list[Prompt]":
    from discodvt.writing.prompts import read_prompts, typed_prompts

    if typed and file is not None:
        raise BadRequest("a prompt and --prompts: give one of the two")
    if not typed and file is None:
        raise BadRequest("give a prompt, such as discodvt generate 'The fox who lost his hat', or --prompts FILE")
    if stories_each < 1:
        raise BadRequest(f"-n {stories_each}: expected at least one story to a prompt")
    asked = read_prompts(file) if file is not None else typed_prompts(typed or [])
    if len(asked) * stories_each > MOST_STORIES:
        raise BadRequest(f"-n {stories_each}: {len(asked) * stories_each:,} stories; ask for at most {MOST_STORIES:,}")
    return asked


def _stream(
    writer: "StoryWriter", request: "Request", params: "SamplingParams", *, show_plan: bool
) -> "Iterator[Story]":
    """Write one story to the terminal as it comes: word by word, or code by code with its plan."""
    from discodvt.report.terminal import LivePlan, LiveText

    stream = writer.stream(request, params)
    if show_plan:
        rows = LivePlan(out, request.prompt)
        for _ in stream:
            rows.grow(stream.text, stream.segments)
        rows.end(stream.story)
    else:
        text = LiveText(out)
        for piece in stream:
            text.write(piece)
        text.end()
    yield stream.story


def _show_all(stories: "Iterator[Story]", total: int, view: str, *, keep: bool) -> "list[Story]":
    """Show stories as they come, or a progress bar where they go to a file; returns them with `keep`."""
    kept = []
    bar = progress()
    bar.disable |= view != "none" and out.is_terminal  # stories and a bar do not share a screen
    with bar:
        task = bar.add_task("writing", total=total, rate="")
        for story in stories:
            _show(story, view, alone=total == 1)
            _say_wish(story)
            bar.advance(task)
            if keep:
                kept.append(story)
    return kept


def _say_wish(story: "Story") -> None:
    """Whether a wish came true, on standard error."""
    wish = story.notes.get("wish")
    if wish:
        words = {"here": "stands at place", "beside": "stands beside place"}
        said = words.get(wish["found"], "was found in no candidate at place")
        err.print(f"the wished {wish['marker']} {said} {wish['place']}", highlight=False)


def _show(story: "Story", view: str, *, alone: bool) -> None:
    if view == "json":
        print_line(story.as_line())
    elif view == "plan":
        from discodvt.report.terminal import PlanView

        out.print(PlanView(story), soft_wrap=False)
        out.print()
    elif view == "text":
        from discodvt.report.escaping import printable
        from discodvt.report.terminal import heading

        if not alone:
            out.print(heading(story.prompt), end="\n\n")
        out.print(Text(printable(story.text)), soft_wrap=not out.is_terminal, end="\n" if alone else "\n\n\n")


@contextmanager
def _interrupted(*, kept: bool) -> Iterator[None]:
    """Ctrl-C says what becomes of the stories written so far; where they are kept, the program says so."""
    try:
        yield
    except KeyboardInterrupt:
        if kept:
            raise
        raise Interrupted("interrupted; no story is kept, with --output FILE.jsonl they are") from None


@contextmanager
def _warning_lines() -> Iterator[None]:
    """Warnings (a prompt that was cut) as lines on standard error, the first few of many."""
    count = 0

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        nonlocal count
        count += 1
        if count <= MOST_WARNINGS:
            err.print(Text.assemble(("warning", "yellow"), f": {message}"), soft_wrap=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
    if count > MOST_WARNINGS:
        err.print(f"and {count - MOST_WARNINGS:,} more such warnings", highlight=False)
