"""Edits: what a person does to a story by its plan. Each is a request body that becomes requests to the writer.

Places of a plan are counted from 0. An edit keeps the text before its place; `counterfactual` and `again` write from
the beginning, `transfer` follows the plan to another prompt.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from discodvt.discourse.labels import MARKERS
from discodvt.studio.native import MOST_STORY, Codes, Prompt, Strict
from discodvt.writing import Request, Segment, Story, StoryWriter
from discodvt.writing.candidates import Wish, wished_requests
from discodvt.writing.control import check_place, draw_code, redraw, rewrite, swapped
from discodvt.writing.dictionary import CodeDictionary

Span = tuple[int, int, int]
Marker = Annotated[str, Field(json_schema_extra={"enum": list(MARKERS)})]


class StoryGiven(BaseModel):
    """A story as `generate` writes it and jobs report it; further keys are ignored."""

    model_config = ConfigDict(extra="ignore")

    prompt: Prompt
    story: Annotated[str, Field(min_length=1, max_length=MOST_STORY)]
    plan: Codes
    segments: Annotated[list[Span], Field(max_length=4096)] = []
    seed: int = 0
    index: int = 0
    id: str = ""
    model: str = ""
    finish: str = "end"
    locks: Annotated[list[int], Field(max_length=4096)] = []  # places of codes that are to stay
    kept: Annotated[int, Field(ge=0)] = 0  # characters it was made to begin with
    settings: dict[str, Any] = {}
    log_probs: dict[str, float] = {}

    def as_story(self) -> Story:
        segments = tuple(Segment(*each) for each in self.segments)
        notes = {"log_probs": self.log_probs} if self.log_probs else {}
        return Story(
            self.id, self.prompt, self.story, tuple(self.plan), self.seed, self.model, self.finish, segments,
            index=self.index, notes=notes,
        )  # fmt: skip

    def locked(self) -> tuple[tuple[int, int], ...]:
        """The locked codes with their places."""
        for place in self.locks:
            check_place(place, len(self.plan), "locks")
        return tuple((place, self.plan[place]) for place in sorted(set(self.locks)))


class Edit(Strict):
    """One candidate is the request itself; the others have the random streams of the indices after it."""

    new_seed: ClassVar[bool] = True  # else the story's own: what an edit does not touch is drawn as before

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        raise NotImplementedError

    def requests(self, writer: StoryWriter, given: StoryGiven, *, n: int, seed: int) -> list[Request]:
        first = self.request(writer, given, seed)
        return [replace(first, index=first.index + number, id=str(number + 1), scored=n > 1) for number in range(n)]


class PlacedEdit(Edit):
    place: int


class Rewrite(PlacedEdit):
    """The same plan, other words from a place on."""

    kind: Literal["rewrite"]

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        return rewrite(given.as_story(), self.place, seed=seed)


class Swap(PlacedEdit):
    """Another code at a place, and what it governs written anew."""

    kind: Literal["swap"]
    code: int
    new_seed: ClassVar[bool] = False

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        return rewrite(given.as_story(), self.place, code=self.code, seed=seed)


class Resample(PlacedEdit):
    """A code drawn again by the prior; the codes after it stay."""

    kind: Literal["resample"]

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        story = given.as_story()
        return rewrite(story, self.place, code=draw_code(writer, story, self.place, seed=seed), seed=seed)


class Redraw(PlacedEdit):
    """The rest of the plan drawn again from a place on, but for locked codes."""

    kind: Literal["redraw"]

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        return redraw(given.as_story(), self.place, locks=given.locked(), seed=seed)


class Again(Edit):
    """The whole story again, with another plan; locked codes stay."""

    kind: Literal["again"]

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        return Request(given.prompt, seed=seed, locks=given.locked())


class Transfer(Edit):
    """Another prompt along the plan of this story."""

    kind: Literal["transfer"]
    prompt: Prompt

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        return Request(self.prompt, seed=seed, plan=tuple(given.plan))


class Counterfactual(PlacedEdit):
    """The same seed from the beginning with one code changed: what differs is what that code does."""

    kind: Literal["counterfactual"]
    code: int
    new_seed: ClassVar[bool] = False

    def request(self, writer: StoryWriter, given: StoryGiven, seed: int) -> Request:
        plan = swapped(given.plan, self.place, self.code)
        return Request(given.prompt, index=given.index, seed=seed, plan=plan, begin_with=given.story[: given.kept])


class WishFor(PlacedEdit):
    """A relation wished for at a place; which candidates have it is told by the annotator."""

    kind: Literal["wish"]
    marker: Marker

    @property
    def wish(self) -> Wish:
        return Wish(self.place, self.marker).checked()

    def requests(self, writer: StoryWriter, given: StoryGiven, *, n: int, seed: int) -> list[Request]:
        found = wished_requests(
            writer,
            given.as_story(),
            self.wish,
            n,
            dictionary=CodeDictionary.of(writer.directory),
            first_index=0,
            asked=Request(given.prompt, locks=given.locked()),
        )
        return [replace(each, seed=seed, id=str(number + 1)) for number, each in enumerate(found)]


AnyEdit = Annotated[
    Rewrite | Swap | Resample | Redraw | Again | Transfer | Counterfactual | WishFor, Field(discriminator="kind")
]


def wish_of(edit: Edit) -> Wish | None:
    return edit.wish if isinstance(edit, WishFor) else None


def kept_locks(locks: Sequence[int], plan: Sequence[int]) -> list[int]:
    """The locked places that a plan has."""
    return sorted({place for place in locks if place < len(plan)})
