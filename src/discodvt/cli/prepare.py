"""`discodvt prepare SOURCE`: make a corpus of prompts and stories. Reads the source's files, writes a corpus directory.

Each sub-command below is a function that makes its source; `_command` adds the output directory and the options that
all share, which are the parameters of `_prepare`.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from discodvt.cli import console
from discodvt.cli.options import Json, Overwrite
from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from discodvt.artefacts import StageFacts
    from discodvt.corpus import Columns, Source

NOTES = {  # said of what was found at least once
    "cut_to_max_words": "cut at a sentence end",
    "lone_surrogates_replaced": "with half a character, replaced by U+FFFD",
    "held_out_prompts_in_train": "train stories share a prompt with valid or test",
}
app = typer.Typer(no_args_is_help=True, help="Make a corpus (prompt, story) of one of the usual sources.")


TailIn = Literal["story", "prompt"]
PromptFrom = Literal["column", "title", "first-sentence", "opening-or-title"]
StoryColumn = Annotated[str, typer.Option(help="Column of the story.")]
SplitFile = Annotated[Path | None, typer.Option(help="File of this split, instead of SOURCES.", show_default=False)]


def _prepare(
    source: "Source",
    out: Annotated[Path, typer.Argument(help="Corpus directory to make.", show_default=False)],
    split: Annotated[
        str | None,
        typer.Option(help="Shares of train/valid/test, drawn by prompt; by default the splits given, else 90/5/5."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the drawn splits.")] = 42,
    deduplicate: Annotated[bool, typer.Option(help="Drop a story met before; case and spacing do not count.")] = True,
    min_words: Annotated[int | None, typer.Option(help="Drop stories with fewer words.")] = None,
    max_words: Annotated[int | None, typer.Option(help="Drop stories with more words.")] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Cut those at the last sentence end that fits instead.")] = False,
    max_story_mb: Annotated[int, typer.Option(help="Longest line, and longest story, that is read, in MB.")] = 16,
    limit: Annotated[int | None, typer.Option(help="Stop after so many stories (of each split, if given).")] = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    asked = dict(locals())
    from discodvt.corpus import Options, prepare

    options = Options(**{name: asked[name] for name in Options.__dataclass_fields__})
    with console.progress() as bar:
        task = bar.add_task("reading", total=None, rate="")

        def show(read: int, total: int, stories: int) -> None:
            bar.update(task, completed=read >> 20, total=total >> 20 or None, rate=f"MB, {stories:,} stories")

        summary = prepare(source, out, options, max_story_mb=max_story_mb, overwrite=overwrite, on_progress=show)
    if json:
        console.print_json({"out": str(out), "already_complete": summary.already_complete, **summary.facts})
    else:
        _show(summary, out)


def _show(summary: "StageFacts", out: Path) -> None:
    """The summary as the paper's data table has it, and what was left out."""
    from rich.table import Table

    facts = summary.facts
    if summary.already_complete:
        console.out.print(f"{out}: already complete")
    table = Table("Input len.", "Output len.", "Train", "Val", "Test")
    counts = [f"{facts['splits'][split]['stories']:,}" for split in ("train", "valid", "test")]
    table.add_row(f"{facts['all']['input_words']:.1f}", f"{facts['all']['output_words']:.1f}", *counts)
    console.out.print(table)
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in facts["dropped"].items()) or "nothing"
    console.out.print(f"lengths in words; {facts['read']:,} read, {facts['kept']:,} kept; dropped: {dropped}")
    for name, said in NOTES.items():
        if facts[name]:
            console.out.print(f"{facts[name]:,} {said}")


def _columns(
    story_column: StoryColumn = "story",
    prompt_column: Annotated[
        str | None, typer.Option(help="Column of the prompt; by default `prompt`, or `title`.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="Column of the id, '' for row numbers; by default `id`, if there.")
    ] = None,
    prompt_from: Annotated[
        PromptFrom,
        typer.Option(
            help="A column, the column `title`, the story's first sentence; or the row's own title, and where there is "
            "none that sentence for half of the stories, a title made of their words for the rest."
        ),
    ] = "column",
    keep_first_sentence: Annotated[
        bool, typer.Option("--keep-first-sentence", help="Leave the first sentence in the story as well.")
    ] = False,
) -> "Columns":
    asked = dict(locals())
    from discodvt.corpus import Columns

    return Columns(**asked)


def _command(make: Callable[..., "Source"]) -> None:
    """A sub-command: the parameters of `make` (those of `_columns` for its `columns`), then those of `_prepare`."""
    own = dict(inspect.signature(make).parameters)
    tabular = own.pop("columns", None) is not None
    columns = dict(inspect.signature(_columns).parameters) if tabular else {}
    shared = {key: value for key, value in inspect.signature(_prepare).parameters.items() if key != "source"}

    def command(**given: Any) -> None:
        asked = {"columns": _columns(**{key: given[key] for key in columns})} if tabular else {}
        source = make(**{key: given[key] for key in own}, **asked)
        _prepare(source, **{key: given[key] for key in shared})

    # Typer reads the arguments off the signature and the annotations.
    parameters = [value.replace(kind=inspect.Parameter.KEYWORD_ONLY) for value in (own | columns | shared).values()]
    cast(Any, command).__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {value.name: value.annotation for value in parameters}
    app.command(make.__name__, help=make.__doc__)(command)


def wikiplots(directory: Annotated[Path, typer.Argument(help="Has `titles` and `plots`.")]) -> "Source":
    """Wikiplots: titles as prompts, plots as stories."""
    from discodvt.corpus import Wikiplots

    return Wikiplots(directory)


def writingprompts(
    directory: Annotated[Path, typer.Argument(help="Has train.wp_source, train.wp_target and so on.")],
    strip_tags: Annotated[
        bool, typer.Option("--strip-tags", help="Take `[ WP ]` and the like off the prompts.")
    ] = False,
) -> "Source":
    """WritingPrompts: its splits as given, accents stripped, newline markers dropped."""
    from discodvt.corpus import WritingPrompts

    return WritingPrompts(directory, strip_tags=strip_tags)


def books(
    path: Annotated[Path, typer.Argument(help="A .txt or .jsonl file (.gz, .zst), or a directory of them.")],
    segment_length: Annotated[
        int | None, typer.Option(min=1, help="Length of a segment; by default 512 subwords, or 400 words.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Tokenizer, a directory or Hub id: count its subwords.")
    ] = None,
    story_column: StoryColumn = "story",
    tail: Annotated[
        int | None,
        typer.Option(min=1, help="Overlapping windows instead: each begins with so much of the one before."),
    ] = None,
    tail_in: Annotated[
        TailIn, typer.Option(help="Where a window's tail is: begins the story, ends the prompt.")
    ] = "story",
    title_column: Annotated[str, typer.Option(help="With --tail: column of a book's title, the prompt.")] = "title",
) -> "Source":
    """Books: contiguous segments with an empty prompt, or windows under the book's title; none across two books."""
    asked = dict(locals())
    from discodvt.corpus import Books

    return Books(**asked)


def hf(
    *,
    columns: "Columns",
    dataset: Annotated[str, typer.Argument(help="Name on the Hub, or a local dataset directory.")],
    config: Annotated[str | None, typer.Option(help="Configuration of the dataset.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    split_map: Annotated[str | None, typer.Option(help="Such as train=train,valid=validation,test=test.")] = None,
) -> "Source":
    """A dataset of the Hugging Face Hub, streamed (needs the extra `hub`)."""
    from discodvt.corpus import HubDataset
    from discodvt.corpus.tabular import parse_split_map

    splits = parse_split_map(split_map) if split_map else {}
    return HubDataset(dataset, config=config, revision=revision, split_map=splits, columns=columns)


def _table(kind: str, about: str) -> Callable[..., "Source"]:
    """The three formats of tables differ in nothing but the reading."""

    def table(
        *,
        columns: "Columns",
        sources: Annotated[
            list[Path] | None, typer.Argument(help="Files, or one directory.", show_default=False)
        ] = None,
        train: SplitFile = None,
        valid: SplitFile = None,
        test: SplitFile = None,
    ) -> "Source":
        from discodvt.corpus import TabularFiles

        if bool(sources) == bool(train or valid or test):
            raise BadRequest(f"give {kind} files as FILE... OUT, or as --train FILE --valid FILE --test FILE OUT")
        given = {split: path for split, path in (("train", train), ("valid", valid), ("test", test)) if path}
        return TabularFiles(kind, sources or (), columns=columns, given=given)

    table.__name__, table.__doc__ = kind, f"{about}; files named train, valid and test are those splits."
    return table


_command(wikiplots)
_command(writingprompts)
_command(books)
_command(_table("jsonl", "JSON objects, one per line (.gz, .zst too)"))
_command(_table("csv", "Comma-separated values with a header (.gz, .zst too)"))
_command(_table("parquet", "Parquet"))
_command(hf)
