"""Stories longer than the model's positions: one plan drawn piece by piece, the text written in overlapping windows.

A window is an ordinary draft: the prompt, a kept tail of the text so far as its forced beginning, then new text. It is
so short that the model always is in the middle of a story, where it neither begins anew nor comes to an end; only the
last window may end, and then ends by itself. The plan carries what the window forgets: the prior draws each piece after
the codes of the tail, and the latent is that of the whole plan, cut where the window begins. So code k governs the
subwords k n to (k + 1) n - 1 of the story, as in every story, whatever the windows were.

A tail begins with a sentence. Every window has random streams of its own, keyed by the story's and its number.
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest
from discodvt.writing.sampling import SamplingParams, stream_key
from discodvt.writing.story import Request
from discodvt.writing.story_batch import PlanDraft, StoryDraft

if TYPE_CHECKING:
    from discodvt.writing.detokenizer import GrowingText
    from discodvt.writing.writer import StoryWriter

WINDOW = 0.1  # tail and new text of a window, each as a share of the model's longest story
PENALTY = 1.1  # of repetition, unless one is given: without the beginning in view a window dwells on its tail
STRENGTH = 1.5  # times the model's plan strength, unless one is given: the plan carries what a window has forgotten
IN_A_ROW = 2  # times a word or a few may follow themselves: names of the prompt, which no penalty meets, can loop
CODES_PER_WORD = 8  # at most, wherever a plan may still be locked: how long it becomes is not known before
ENDING = 2  # codes before the end of its plan from which the story may end


@dataclass(slots=True, kw_only=True, eq=False)
class Window(StoryDraft):
    """A part of a long story in the making: from subword `start` of it, the first ones given."""

    story: "LongDraft"
    start: int
    last: bool

    @property
    def whole(self) -> StoryDraft:
        return self.story


@dataclass(slots=True, kw_only=True, eq=False)
class LongDraft(StoryDraft):
    """A long story in the making: what its windows have written so far. `window` is the one being written."""

    writer: "StoryWriter"
    grown: "GrowingText"
    codes: int  # of a tail, and of the new text of a window
    windows: int = 0
    window: Window | None = None
    beginning: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return self.window is not None and self.window.last and self.window.done

    @property
    def kept(self) -> int:
        """While its last window is not begun, nothing is ever cut."""
        window = self.window
        return len(self.symbols) if window is None or not window.last else window.start + window.kept

    @property
    def part(self) -> StoryDraft | None:
        return self.window

    def next_part(self) -> StoryDraft:
        """The window that follows, with the piece of the plan that is to be drawn for it."""
        writer, request, latent = self.writer, self.request, self.writer.latent
        assert latent is not None
        size, told = latent.tokens_per_code, self.symbols or self.beginning
        start = self._start(size)
        first = start // size  # code
        fewest = -(-len(told) // size) + self.codes - first  # of the prior's window
        last = self._is_last(size)
        key = (request.seed, request.index, request.prompt.strip())
        window = Window(
            story=self,
            request=request,
            plan=None,
            start=start,
            last=last,
            prompt=self.prompt,
            key=stream_key(*key, f"text {self.windows}" if self.windows else "text"),
            fewest=0,
            most=self.most,
            params=self.params,
            forced=dict(enumerate(told[start:])),
            unpenalised=frozenset(self.prompt),
            most_in_a_row=IN_A_ROW,
            log_probs=None if self.log_probs is None else [],
        )
        given = dict(enumerate((self.plan or ())[first:]))
        locks = {place - first: code for place, code in request.locks if place >= first}
        plan = PlanDraft(
            story=window,
            prompt=self.prompt,
            key=stream_key(*key, f"plan {self.windows}" if self.windows else "plan"),
            fewest=fewest + (not last),  # a code reaches back into the segment before it, so one more is drawn
            most=writer.lengths.max_codes if last else fewest + 1,
            params=self.params.for_plans(),
            forced={place: code for place, code in locks.items() if place <= fewest} | given,
            log_probs=None if self.log_probs is None else [],
        )
        plan.forced = {**locks, **plan.forced}  # those further on hold if the plan gets there, but do not prolong it
        window.plan_draft = plan
        self.window = window
        self.windows += 1
        return window

    def follow(self, window: Window, codes: tuple[int, ...]) -> None:
        """Let a window be written along its piece of the plan, whose first codes are those of the tail."""
        latent = self.writer.latent
        assert latent is not None
        size = latent.tokens_per_code
        self.plan = (*(self.plan or ())[: window.start // size], *codes)
        if window.plan_log_probs and self.plan_log_probs is not None:
            self.plan_log_probs += window.plan_log_probs
        if window.last:
            window.fewest = min(self.most, max(len(window.forced), size * (len(self.plan) - ENDING) - window.start))
        else:
            window.fewest = window.most = size * (len(self.plan) - 1) - window.start
        window.plan = self.plan
        strength = window.params.plan_strength
        window.latent = latent(self.plan, window.start + window.most, strength=strength)[window.start :]

    def take(self, window: StoryDraft) -> None:
        """Add what a window has written since."""
        assert isinstance(window, Window)
        new = window.symbols[len(self.symbols) - window.start :]
        for symbol in new:
            self.grown.add(symbol)
        self.symbols += new
        self.ended = window.last and window.ended
        if window.done and self.log_probs is not None:
            self.log_probs += window.log_probs or ()

    def _start(self, size: int) -> int:
        """The first subword of the next window: that of the first sentence of the tail."""
        wanted = len(self.symbols) - self.codes * size
        if not self.windows or wanted <= 0:
            return 0
        text, starts = self.grown.text, self.grown.starts
        for begins, _ in split_sentences(text[starts[wanted] :])[1:]:
            found = bisect_right(starts, starts[wanted] + begins) - 1
            if wanted < found <= len(self.symbols) - size:
                return found
        return wanted

    def _is_last(self, size: int) -> bool:
        """Whether the words that were asked for come with the next window."""
        wanted = self.params.words or 0
        words, subwords = len(self.grown.text.split()), len(self.symbols)
        rate = words / subwords if subwords else 1.0
        return words + rate * 2 * self.codes * size >= wanted  # an ending takes about as much again


def long_draft(writer: "StoryWriter", request: Request, params: SamplingParams) -> LongDraft:
    """A story of about `params.words` words, ready for a batch."""
    if writer.latent is None or writer.prior_engine is None:
        raise BadRequest(
            f"`words`: {writer.name} draws no plan, which a story in windows follows; leave it out", "words"
        )
    if request.plan is not None:
        raise BadRequest("`words` and `plan`: a long story draws its own plan; leave one out", ("words", "plan"))
    if params.prompt_bias:
        told = "a story in windows favours no words of its prompt; leave one out"
        raise BadRequest(f"`words` and `prompt_bias`: {told}", ("words", "prompt_bias"))
    asked = params.resolved(writer.model_defaults)
    if params.repetition_penalty is None:  # that of a model is for stories it sees as a whole
        asked = replace(asked, repetition_penalty=max(PENALTY, asked.repetition_penalty or 1.0))
    if params.plan_strength is None:
        asked = replace(asked, plan_strength=STRENGTH * (asked.plan_strength or 0.0))
    prompt, size = writer.prompt_ids(request.prompt), writer.latent.tokens_per_code
    most = min(writer.lengths.max_tokens, writer.generator_engine.room(len(prompt)))
    codes = round(WINDOW * writer.lengths.max_tokens / size)
    held, needed = min(writer.lengths.max_codes, max(0, most) // size), 2 * max(codes, 1) + ENDING
    if codes < 1 or needed > held:
        told = f"a window has {needed} codes, plans and positions of {writer.name} hold {held}"
        raise BadRequest(f"`words`: {told}; leave it out", "words")
    writer.checked_locks(request.locks, CODES_PER_WORD * (params.words or 0))
    beginning = writer.beginning_ids(request.begin_with, (held - needed) * size + 1)
    return LongDraft(
        writer=writer,
        grown=writer.growing_text(),
        codes=codes,
        request=request,
        plan=None,
        prompt=prompt,
        key=0,  # its windows have their own
        fewest=0,
        most=most,
        params=asked,
        beginning=beginning,
        log_probs=[] if request.scored else None,
        plan_log_probs=[] if request.scored else None,
    )
