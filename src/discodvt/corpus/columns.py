"""From a record (a JSON object, a CSV or Parquet row) to a prompt and a story, by the names of its columns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from discodvt.corpus.sentences import first_sentence
from discodvt.corpus.sources import Row
from discodvt.errors import BadRequest

PromptFrom = Literal["column", "title", "first-sentence"]


class Record(NamedTuple):
    """The values of one record by column, and where it stands."""

    values: Mapping[str, Any]
    place: str
    position: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what. `id` None: the column `id` where there is one; empty: the rows are numbered."""

    story: str = "story"
    prompt: str | None = None
    id: str | None = None
    prompt_from: PromptFrom = "column"
    keep_first_sentence: bool = False

    def __post_init__(self) -> None:
        if self.keep_first_sentence and self.prompt_from != "first-sentence":
            raise BadRequest("--keep-first-sentence: only with --prompt-from first-sentence; add that or leave it out")
        if self.prompt and self.prompt_from == "first-sentence":
            raise BadRequest(
                f"--prompt-column {self.prompt}: the prompt is the first sentence by --prompt-from; drop one of the two"
            )

    @property
    def prompt_name(self) -> str | None:
        """The column of the prompt; None where it is the story's first sentence."""
        if self.prompt_from == "first-sentence":
            return None
        return self.prompt or ("title" if self.prompt_from == "title" else "prompt")

    def needed(self, present: Collection[str], place: str) -> list[str]:
        """The columns to read of those present; one that is missing is an error that lists them."""
        named = {"--story-column": self.story, "--prompt-column": self.prompt_name, "--id-column": self.id}
        names = {option: name for option, name in named.items() if name}
        for option, name in names.items():
            if name not in present:
                there = ", ".join(str(column) for column in present) or "none"
                hint = ", or --prompt-from first-sentence" if option == "--prompt-column" else ""
                raise BadRequest(f"{place}: no column `{name}`; it has {there}; name one with {option}{hint}")
        if self.id is None and "id" in present:
            names["--id-column"] = "id"
        return list(names.values())

    def row(self, record: Record) -> Row:
        """The record, which has the columns needed, as a row; a value that is no text is an error that says where."""
        story = text_of(record, self.story)
        if self.prompt_name:
            prompt = text_of(record, self.prompt_name)
        else:
            prompt, rest = first_sentence(story)
            story = story if self.keep_first_sentence else rest
        id_name = self.id if self.id is not None else "id"
        return Row(
            prompt=prompt,
            story=story,
            place=record.place,
            position=record.position,
            id=_id_of(record, id_name) if id_name and id_name in record.values else None,
        )


def text_of(record: Record, column: str) -> str:
    value = record.values[column]
    if value is None:
        raise BadRequest(f"{record.place}: null in column `{column}`; remove the row or give it a text")
    if not isinstance(value, str):
        raise BadRequest(f"{record.place}: column `{column}` holds a {type(value).__name__}; expected text")
    return value


def _id_of(record: Record, column: str) -> str:
    value = record.values[column]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadRequest(
            f"{record.place}: no usable id in column `{column}`; expected text or a whole number, "
            "or number the rows with --id-column ''"
        )
    return str(value)
