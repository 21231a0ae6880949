"""From a record (a JSON object, a CSV or Parquet row) to a prompt and a story, by the names of its columns."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from discodvt.corpus.sentences import first_sentence
from discodvt.corpus.sources import Row
from discodvt.corpus.titles import make_title, wants_title
from discodvt.errors import BadRequest

PromptFrom = Literal["column", "title", "first-sentence", "opening-or-title"]

FROM_THE_STORY = ("first-sentence", "opening-or-title")


class Record(NamedTuple):
    """The values of one record by column, and where it stands."""

    values: Mapping[str, Any]
    place: str
    position: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what. `id_column` None: the column `id` where there is one; empty: the rows are numbered."""

    story_column: str = "story"
    prompt_column: str | None = None
    id_column: str | None = None
    prompt_from: PromptFrom = "column"
    keep_first_sentence: bool = False

    def __post_init__(self) -> None:
        if self.keep_first_sentence and self.prompt_from != "first-sentence":
            raise BadRequest(
                "`keep_first_sentence`: only with `prompt_from` first-sentence; add that or leave it out",
                parameter=("keep_first_sentence", "prompt_from"),
            )
        if self.prompt_column and self.prompt_from in FROM_THE_STORY:
            raise BadRequest(
                f"`prompt_column` {self.prompt_column}: `prompt_from` takes it from the story; drop one of the two",
                parameter=("prompt_column", "prompt_from"),
            )

    def settings(self) -> dict[str, Any]:
        """The columns as a manifest has them."""
        return {name.removesuffix("_column"): value for name, value in asdict(self).items()}

    @property
    def prompt_name(self) -> str | None:
        """The column of the prompt; None where it is made from the story."""
        if self.prompt_from in FROM_THE_STORY:
            return None
        return self.prompt_column or ("title" if self.prompt_from == "title" else "prompt")

    def needed(self, present: Collection[str], place: str) -> list[str]:
        """The columns to read of those present; one that is missing is an error that lists them."""
        named = {"story_column": self.story_column, "prompt_column": self.prompt_name, "id_column": self.id_column}
        names = {parameter: name for parameter, name in named.items() if name}
        for parameter, name in names.items():
            if name not in present:
                there = ", ".join(str(column) for column in present) or "none"
                hint = ", or set `prompt_from` to first-sentence" if parameter == "prompt_column" else ""
                raise BadRequest(
                    f"{place}: no column `{name}`; it has {there}; name one with `{parameter}`{hint}",
                    parameter=(parameter, "prompt_from"),
                )
        if self.id_column is None and "id" in present:
            names["id_column"] = "id"
        if self.prompt_from == "opening-or-title" and "title" in present:
            names["title"] = "title"
        return list(names.values())

    def row(self, record: Record) -> Row:
        """The record, which has the columns needed, as a row; a value that is no text is an error that says where."""
        story = text_of(record, self.story_column)
        if self.prompt_name:
            prompt = text_of(record, self.prompt_name)
        else:
            prompt, story = self._from_story(story, record.values.get("title"))
        id_name = self.id_column if self.id_column is not None else "id"
        return Row(
            prompt=prompt,
            story=story,
            place=record.place,
            position=record.position,
            id=_id_of(record, id_name) if id_name and id_name in record.values else None,
        )

    def _from_story(self, story: str, title: object) -> tuple[str, str]:
        """Prompt and story: a title (the row's own, or made) and all of it, or the first sentence and the rest."""
        if self.prompt_from == "opening-or-title":
            made = (
                title if isinstance(title, str) and title.strip() else make_title(story) if wants_title(story) else None
            )
            if made:
                return made, story
        opening, rest = first_sentence(story)
        return opening, story if self.keep_first_sentence else rest


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
            "or number the rows with `id_column` ''",
            parameter="id_column",
        )
    return str(value)
