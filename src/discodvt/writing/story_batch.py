"""Stories in the making: prompts to plans to texts, each request with params of its own, in shared batches.

A request joins between any two steps and may be cancelled between any two; those beside it stay the same. `StoryWriter`
and servers write with this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from discodvt.errors import BadRequest
from discodvt.writing.decoding import Batch, Draft
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.story import Request, Segment, Story

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter


@dataclass(slots=True, kw_only=True, eq=False)
class PlanDraft(Draft):
    """A plan in the making, and the story it is for."""

    story: "StoryDraft"


@dataclass(slots=True, kw_only=True, eq=False)
class StoryDraft(Draft):
    """A story in the making; its plan is None until it is drawn."""

    request: Request
    plan: tuple[int, ...] | None
    plan_draft: PlanDraft | None = None
    plan_log_probs: list[float] | None = None

    @property
    def kept(self) -> int:
        """Subwords that stay whatever follows: where the limit ends a story, it is cut at a sentence after them."""
        return self.most // 2

    @property
    def whole(self) -> "StoryDraft":
        """The story this is a part of; most are written in one."""
        return self

    @property
    def part(self) -> "StoryDraft | None":
        """The part that is being written."""
        return self

    def next_part(self) -> "StoryDraft":
        """The part to write next."""
        return self

    def take(self, part: "StoryDraft") -> None:
        """Add what a part has written since."""


class StoryBatch:
    """Up to `rows` stories written at a time, and as many plans drawn; further requests wait.

    batch = writer.batch(32)
    draft = batch.add(Request("A red kite"), SamplingParams(top_p=0.95))   # BadRequest if it cannot be
    while batch:
        for draft in batch.step():                                         # every draft that has grown
            if draft.done: story = writer.story(draft)
    """

    def __init__(self, writer: "StoryWriter", rows: int) -> None:
        self._writer = writer
        self._texts: Batch[StoryDraft] = Batch(writer.generator_engine, rows)
        prior = writer.prior_engine
        self._plans: Batch[PlanDraft] | None = None if prior is None else Batch(prior, rows)

    def __len__(self) -> int:
        """Stories that are not done, those that wait included."""
        return len(self._texts) + (len(self._plans) if self._plans else 0)

    @property
    def free(self) -> int:
        """Rows that no request has or waits for."""
        return max(0, self._texts.free - (len(self._plans) if self._plans else 0))

    def add(self, request: Request, params: SamplingParams | None = None) -> StoryDraft:
        """Let a request take part from the next step on, or as soon as a row is free."""
        draft = self._writer.draft(request, params or SamplingParams())
        self._begin(draft.next_part())
        return draft

    def cancel(self, draft: StoryDraft) -> None:
        """Take a story out; one that is done or cancelled already is no longer in it."""
        part = draft.part
        if part is None:
            return
        if part.plan_draft is not None and self._plans is not None:
            self._plans.cancel(part.plan_draft)
        self._texts.cancel(part)

    def step(self) -> list[StoryDraft]:
        """One code for each plan in the making, one subword for each text; returns the stories that have grown."""
        return [self._grown(part) for part in self._step_plans() + self._texts.step()]

    def draw_plans(self) -> None:
        """Draw all plans that are wanted before going on with texts: for many stories that is faster."""
        while self._plans:
            self._step_plans()

    def _begin(self, part: StoryDraft) -> None:
        if part.plan_draft is not None and self._plans is not None:
            self._plans.add(part.plan_draft)
        else:
            self._texts.add(part)

    def _grown(self, part: StoryDraft) -> StoryDraft:
        """The story of a part that has grown; after a part that is done its next one is begun."""
        story = part.whole
        story.take(part)
        if part.done and not story.done and story.part is part:
            self._begin(story.next_part())
        return story

    def _step_plans(self) -> list[StoryDraft]:
        if not self._plans:
            return []
        grown = self._plans.step()
        for draft in grown:
            if draft.done:
                draft.story.plan_draft = None
                draft.story.plan_log_probs = draft.log_probs
                self._writer.follow(draft.story, tuple(draft.symbols))
                self._texts.add(draft.story)
        return [draft.story for draft in grown]


class StoryStream:
    """A story as it is written: iterate once over pieces of text, which join to `story.text`; then `story` is there.

    Meanwhile `text` is what has come so far, and `segments` tells which code governs what of it. A server that steps
    the batch itself asks for the pieces with `grow`.
    """

    def __init__(self, writer: "StoryWriter", draft: StoryDraft, batch: StoryBatch) -> None:
        self.draft, self.text = draft, ""
        self.segments: tuple[Segment, ...] = ()
        self._story: Story | None = None
        self._writer, self._growing, self._seen = writer, writer.growing_text(), 0
        self._pieces = self._write(batch)

    @property
    def model(self) -> str:
        """The name of the model that writes it."""
        return self._writer.name

    @property
    def starts(self) -> list[int]:
        """The characters at which the subwords begin that have come so far."""
        return self._growing.stripped()[1]

    @property
    def story(self) -> Story:
        """The whole story."""
        if self._story is None:
            raise BadRequest("the story is not written yet; iterate over its stream first")
        return self._story

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def grow(self) -> str:
        """The text that has come since the last call and can be shown: it is never taken back. Empty: none has."""
        draft, text, segments = self.draft, self.text, self.segments
        new, self._seen = draft.symbols[self._seen :], len(draft.symbols)
        for symbol in new:
            self._growing.add(symbol)
        if draft.done:
            if self._story is None:
                self._story = self._writer.story(draft)
            text, segments = self._story.text, self._story.segments
        elif new:
            text, segments = self._writer.shown(draft, self._growing)
        piece = text[len(self.text) :]
        if piece:
            self.text, self.segments = text, segments
        return piece

    def _write(self, batch: StoryBatch) -> Iterator[str]:
        while not self.draft.done:
            batch.step()
            piece = self.grow()
            if piece:
                yield piece
