"""The study file (TOML): what is compared, what judges are told and asked, and by which rules they are counted.

    title = "Which story is better?"
    [systems]                           # the first is compared with each of the others
    DiscoDVT = "disco.jsonl"            # stories (JSONL, Parquet); paths from the study file's own directory
    BART = "bart.jsonl"
    [[questions]]
    id = "coherence"
    text = "Which story ..."

Reads a TOML file; writes nothing. Defaults are the paper's study and are only here.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator

from discodvt.config import read_toml
from discodvt.errors import BadRequest

Line = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Question(_Section):
    id: Name
    text: Line
    tie: bool = True


class Checks(_Section):
    """Attention checks, which look like items. `stories` are people's: each against itself with sentences shuffled."""

    every: int = Field(default=8, ge=0, le=1000)  # one position in so many; 0 for none
    stories: str | None = None


class Exclusion(_Section):
    """When a judge is not counted; fixed before the first answer."""

    least_checks_passed: float = Field(default=0.8, ge=0, le=1)
    words_per_second: float = Field(default=15.0, gt=0)  # an item answered faster than its words can be read is fast
    most_fast: float = Field(default=1 / 3, ge=0, le=1)


class Completion(_Section):
    code: str = Field(default="", max_length=200)
    url: str = Field(default="", max_length=2000, pattern=r"^(https?://\S+)?$")


CONSENT = (
    "You will read pairs of short stories and say which one is better. Your choices and the time you take are kept "
    "under a random number, without your name or address. You may stop at any time."
)
INSTRUCTIONS = (
    "Read both stories to the end before you choose. Judge the stories, not whether you like their topic. "
    "If you cannot see a difference, say so."
)
QUESTIONS = (
    Question(
        id="coherence",
        text="Which story is more coherent: on topic, well structured, right in logic, time, cause and effect?",
    ),
    Question(id="informativeness", text="Which story is more informative: more details, more engaging on the whole?"),
)


class Study(_Section):
    """A whole study file."""

    title: Line = "Which story is better?"
    consent: Words = CONSENT
    instructions: Words = INSTRUCTIONS
    systems: dict[Annotated[str, StringConstraints(min_length=1, max_length=100)], str]
    questions: tuple[Question, ...] = Field(QUESTIONS, min_length=1, max_length=10, strict=False)
    match: Literal["id", "prompt"] = "prompt"
    items: int = Field(100, ge=1)  # prompts on which each pair of systems is compared
    judges_per_item: int = Field(3, ge=1, le=99)
    items_per_judge: int = Field(0, ge=0)  # 0: as many as there are
    max_words: int = Field(0, ge=0)  # longer stories are cut to their last whole sentence within; 0: never
    seed: int = Field(0, ge=0)
    checks: Checks = Checks()
    exclusion: Exclusion = Exclusion()
    completion: Completion = Completion()

    @field_validator("systems")
    @classmethod
    def _two(cls, systems: dict[str, str]) -> dict[str, str]:
        if len(systems) < 2:
            raise ValueError("give two systems or more")
        return systems

    @field_validator("questions")
    @classmethod
    def _distinct(cls, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        if len({question.id for question in questions}) < len(questions):
            raise ValueError("two questions have one id")
        return questions

    @property
    def ours(self) -> str:
        """The system that is compared with all others."""
        return next(iter(self.systems))

    @property
    def rivals(self) -> list[str]:
        return list(self.systems)[1:]


def read_study(path: Path) -> Study:
    """The study of a file; what is wrong in it is one line."""
    return study_of(read_toml(path, give="a study file (TOML)"), str(path))


def study_of(content: dict[str, Any], where: str) -> Study:
    """The study of a TOML file's content, or of a manifest."""
    try:
        return Study.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        known = ", ".join(Study.model_fields)
        hint = f"; known keys: {known}" if first["type"] == "extra_forbidden" and len(first["loc"]) == 1 else ""
        raise BadRequest(f"{where}: {key}: {first['msg'].removeprefix('Value error, ')}{hint}") from None
