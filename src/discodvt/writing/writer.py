"""`StoryWriter`: prompt -> plan -> story. The prior draws a plan, the generator writes along it (sections 3.4 and 4.2).

A story depends on its prompt, its plan, the params and its random stream (seed, index, prompt), not on the stories
beside it: what is computed before its first word is computed alone; for what comes after see `engine` and `sampling`.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import torch

from discodvt.data.subwords import as_input
from discodvt.errors import BadRequest
from discodvt.writing.baseline_writers import baseline_writer
from discodvt.writing.decoding import Favour
from discodvt.writing.detokenizer import Detokenizer, GrowingText
from discodvt.writing.engines.layers import int8_levels
from discodvt.writing.loading import LoadedWriter, load_writer
from discodvt.writing.long_story import Window, long_draft
from discodvt.writing.prompt_words import PromptWords
from discodvt.writing.sampling import SamplingParams, stream_key
from discodvt.writing.story import Request, Segment, Story, cut_to_sentence, segments_of
from discodvt.writing.story_batch import PlanDraft, StoryBatch, StoryDraft, StoryStream

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from discodvt.model import DiscoDVT
    from discodvt.model.prior import Prior

FAVOUR_BIAS = 5.0  # nats


class StoryWriter:
    """Writes stories along plans; around a plain language model, without."""

    def __init__(self, parts: LoadedWriter) -> None:
        self._checkpoint, self.lengths = parts.checkpoint, parts.checkpoint.lengths
        self.name, self.directory = parts.checkpoint.name, parts.checkpoint.directory
        self.model_defaults = parts.model_defaults  # temperatures and repetition penalty where none is given
        self.int8 = parts.int8
        self.generator_engine, self.latent, self.prior_engine = parts.generator, parts.latent, parts.prior
        self._tokenizer, self._detokenizer = parts.subwords, Detokenizer(parts.subwords)
        self.device = parts.generator.device

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        int8: bool = False,
        device: str | torch.device | None = None,
        engine: str | None = None,
    ) -> "StoryWriter":
        """Open a directory, a Hub id, or (None) the storyteller that ships; on a GPU where there is one.

        `engine` is bart, llama or transformers; None: the fastest that can run the model.
        """
        place = torch.device(device or ("cuda" if torch.cuda.is_available() and not int8 else "cpu"))
        if int8 and place.type != "cpu":
            raise BadRequest(f"`int8`: for the CPU only, not for {place}; leave one of the two out", "int8")
        if int8 and int8_levels(torch.backends.quantized.engine) is None:
            warnings.warn("int8: PyTorch has no kernel for it on this machine; weights stay float32", stacklevel=2)
        parts = load_writer(source, place, int8=int8, engine=engine)
        return baseline_writer(parts) or cls(parts)

    @property
    def engine(self) -> str:
        """The engine that writes texts: bart, llama or transformers."""
        return self.generator_engine.name

    def compile(self) -> bool:
        """Write with compiled steps (extra `fast`) from now on, not first when busy; whether those of texts are."""
        if self.prior_engine is not None:
            self.prior_engine.compile()
        return self.generator_engine.compile()

    @cached_property
    def model(self) -> "DiscoDVT | PreTrainedModel":
        """The same weights as a Hugging Face model, opened when first asked for: writing does without."""
        from transformers import AutoModelForCausalLM, BartForConditionalGeneration

        from discodvt.model import DiscoDVT

        kinds: dict[str, Any] = {"discodvt": DiscoDVT, "bart": BartForConditionalGeneration}
        kind = kinds.get(self._checkpoint.kind, AutoModelForCausalLM)
        model: DiscoDVT | PreTrainedModel = self._checkpoint.load(kind, device=self.device)
        return model

    @cached_property
    def prior(self) -> "Prior | None":
        """The prior as a Hugging Face model, if there is one."""
        from discodvt.model.prior import load_prior

        prior = self._checkpoint.prior
        return None if prior is None else load_prior(prior, device=self.device)

    @cached_property
    def tokenizer(self) -> "PreTrainedTokenizerBase":
        return self._checkpoint.tokenizer()

    def write(
        self, prompt: str, *, seed: int = 0, index: int = 0, plan: Sequence[int] | None = None, **params: Any
    ) -> Story:
        """One story; `params` are the fields of `SamplingParams`."""
        request = Request(prompt, index=index, seed=seed, plan=None if plan is None else tuple(plan))
        (story,) = self.write_many([request], SamplingParams(**params), batch_size=1)
        return story

    def write_many(
        self, requests: Iterable[Request], params: SamplingParams | None = None, *, batch_size: int = 32
    ) -> Iterator[Story]:
        """Stories in the order they finish, `batch_size` in the making at a time; each carries its index."""
        batch, params = self.batch(batch_size), params or SamplingParams()
        self.lengths.tokens(params.min_tokens, params.max_tokens)  # refuse what cannot be before anything is written
        return self._write_many(iter(requests), params, batch, batch_size)

    def batch(self, rows: int = 32) -> StoryBatch:
        """A batch that requests can join and leave between any two steps, each with params of its own."""
        if rows < 1:
            raise BadRequest(f"`batch_size` {rows}: expected 1 or more", "batch_size")
        return StoryBatch(self, rows)

    def stream(self, request: Request, params: SamplingParams | None = None) -> StoryStream:
        """One story, piece by piece."""
        batch = self.batch(1)
        return StoryStream(self, batch.add(request, params), batch)

    @torch.inference_mode()
    def plan_of(self, story: str) -> tuple[int, ...]:
        """The plan of a story: the posterior's likeliest codes."""
        if self.latent is None:
            raise BadRequest(f"{self.name}: a plain language model, which knows no plans; give a DiscoDVT")
        ids = self._ids(story, "story")
        longest = self.lengths.max_tokens - 1
        if len(ids) > longest:
            warnings.warn(f"a story of {len(ids):,} subwords was read up to subword {longest:,}", stacklevel=2)
        read = torch.tensor([[self.generator_engine.start, *ids[:longest]]], device=self.device)
        posterior: Any = self.model
        codes: list[int] = posterior.plan(read, torch.ones_like(read))[0].tolist()
        return tuple(code for code in codes if code < self.latent.num_codes)

    def read(self, text: str, prompt: str) -> Story:
        """A text by anybody as a story of this model: its plan, and what of it each code governs.

        A text longer than the model's stories is read up to where they end.
        """
        plan, grown = self.plan_of(text), self.growing_text()
        for symbol in self._ids(text, "story")[: self.lengths.max_tokens - 1]:
            grown.add(symbol)
        grown.end()
        text, starts = grown.stripped()
        size = 1 if self.latent is None else self.latent.tokens_per_code
        segments = segments_of(plan, starts, len(text), size)
        return Story(
            id="0", prompt=prompt, text=text, plan=plan, seed=0, model=self.name, finish="end", segments=segments
        )

    def draft(self, request: Request, params: SamplingParams) -> StoryDraft:
        """A request that can be written, ready for a batch: its plan is given, or its `plan_draft` is to be drawn."""
        if params.words is not None:
            return long_draft(self, request, params)
        params = params.resolved(self.model_defaults)
        prompt, key = self.prompt_ids(request.prompt), (request.seed, request.index, request.prompt.strip())
        fewest, most = self._lengths(len(prompt), params)
        beginning = self.beginning_ids(request.begin_with, most)
        story = StoryDraft(
            request=request,
            plan=None,
            prompt=prompt,
            key=stream_key(*key, "text"),
            fewest=fewest,
            most=most,
            params=params,
            forced=dict(enumerate(beginning)),
            favour=self._favour(request.favour),
            prompt_words=self._prompt_words(request.prompt, params),
            log_probs=[] if request.scored else None,
        )
        plan = self._checked_plan(request)
        if plan is not None:
            self.follow(story, plan)
            return story
        fewest, most = self.lengths.codes(params.min_codes, params.max_codes)
        story.plan_draft = PlanDraft(
            story=story,
            prompt=prompt,
            key=stream_key(*key, "plan"),
            fewest=fewest,
            most=most,
            params=params.for_plans(),
            forced=self.checked_locks(request.locks, most),
            log_probs=[] if request.scored else None,
        )
        return story

    def follow(self, draft: StoryDraft, plan: tuple[int, ...]) -> None:
        """Let a draft that has not begun be written along a plan."""
        if isinstance(draft, Window):
            draft.story.follow(draft, plan)
            return
        draft.plan = plan
        if self.latent is not None:
            draft.latent = self.latent(plan, draft.most, strength=draft.params.plan_strength)

    def story(self, draft: StoryDraft) -> Story:
        """The story of a draft that is done."""
        grown = self.growing_text()
        for symbol in draft.symbols:
            grown.add(symbol)
        grown.end()
        text, starts = grown.stripped()
        kept = self._kept(draft)
        if kept is not None:
            text = cut_to_sentence(text, earliest=max(starts[kept], len(draft.request.begin_with.strip())))
        request, told = draft.request, {"plan": draft.plan_log_probs, "text": draft.log_probs}
        beyond = [place for place, _ in request.locks if place >= len(draft.plan or ())]
        if beyond:
            drawn = f"the plan that was drawn, of {len(draft.plan or ())} codes"
            warnings.warn(f"`locks`: place {beyond[0]} lies behind {drawn}", stacklevel=2)
        means = {name: fmean(found) for name, found in told.items() if found}
        return Story(
            id=request.id or str(request.index),
            prompt=request.prompt,
            text=text,
            plan=draft.plan or (),
            seed=request.seed,
            model=self.name,
            finish="end" if draft.ended else "length",
            segments=self._segments(draft, starts, text),
            index=request.index,
            notes={"log_probs": means} if means else {},
        )

    def _kept(self, draft: StoryDraft) -> int | None:
        """Subwords after which a text is cut at a sentence, since the limit or the end of its plan's tail ended it."""
        if not draft.ended:
            return draft.kept
        if self.latent is None or not self.latent.tail or not draft.plan:
            return None
        planned = self.latent.tokens_per_code * len(draft.plan)
        return planned if len(draft.symbols) >= planned + self.latent.tail else None

    def growing_text(self) -> GrowingText:
        """A text that grows by subwords of this model."""
        return self._detokenizer.growing()

    def shown(self, draft: StoryDraft, grown: GrowingText) -> tuple[str, tuple[Segment, ...]]:
        """What of a text that is not done can be shown, and its segments: late only what no cut can take away."""
        text, starts = grown.stripped()
        if len(draft.symbols) > draft.kept:
            text = grown.whole_sentences()
        return text, self._segments(draft, starts, text)

    def _write_many(
        self, waiting: Iterator[Request], params: SamplingParams, batch: StoryBatch, rows: int
    ) -> Iterator[Story]:
        """Plans are drawn for as many at a time as are written at a time."""
        while True:
            if batch.free:
                for request in islice(waiting, rows):
                    batch.add(request, params)
                batch.draw_plans()
            if not batch:
                return
            for draft in batch.step():
                if draft.done:
                    yield self.story(draft)

    def _segments(self, draft: StoryDraft, starts: Sequence[int], text: str) -> tuple[Segment, ...]:
        if self.latent is None or draft.plan is None:
            return ()
        return segments_of(draft.plan, starts, len(text), self.latent.tokens_per_code)

    def _lengths(self, prompt: int, params: SamplingParams) -> tuple[int, int]:
        """The fewest and the most subwords of a story after a prompt of so many."""
        fewest, most = self.lengths.tokens(params.min_tokens, params.max_tokens)
        room = self.generator_engine.room(prompt)
        if most > room and params.max_tokens is not None:
            raise BadRequest(
                f"`max_tokens` {most}: after a prompt of {prompt} the model has {room} positions; ask for fewer",
                "max_tokens",
            )
        return min(fewest, most, room), min(most, room)

    def beginning_ids(self, text: str, most: int) -> list[int]:
        """The subwords a story is to begin with."""
        ids = self._ids(text, "beginning") if text.strip() else []
        if len(ids) >= most:
            raise BadRequest(
                f"`begin_with`: {len(ids)} subwords, of at most {most} of a story; give fewer", "begin_with"
            )
        return ids

    def _favour(self, wanted: tuple[int, str] | None) -> Favour | None:
        """The first subwords of a marker, within a sentence or at its beginning, at a place and the next one."""
        if wanted is None or self.latent is None:
            return None
        place, marker = wanted
        size = self.latent.tokens_per_code
        symbols = {self._ids(form, "marker")[0] for form in (marker, marker.capitalize())}
        return Favour(tuple(sorted(symbols)), first=place * size, last=(place + 2) * size, bias=FAVOUR_BIAS)

    def _prompt_words(self, prompt: str, params: SamplingParams) -> PromptWords | None:
        return PromptWords(prompt, self._tokenizer, params.prompt_bias) if params.prompt_bias else None

    def _checked_plan(self, request: Request) -> tuple[int, ...] | None:
        """A given plan, if the model can follow it; None where one is to be drawn."""
        plan = request.plan
        if self.latent is None:
            if plan is not None or request.locks:
                raise BadRequest(f"{self.name}: a plain language model, which follows no plan; give a DiscoDVT", "plan")
            return ()
        if plan is None:
            if self.prior_engine is None:
                raise BadRequest(
                    f"{self.directory}: no prior/ in it, so no plan can be drawn; "
                    "train the `prior` stage on it (discodvt train), or give a plan"
                )
            return None
        if request.locks:
            raise BadRequest("`locks` and `plan`: locked codes are for plans that are drawn; leave one out", "locks")
        self._check_codes(plan, "plan")
        most = self.lengths.positions // self.latent.tokens_per_code
        if not 1 <= len(plan) <= most:
            raise BadRequest(f"`plan`: {len(plan)} codes; the model's positions hold 1 to {most}", "plan")
        return plan

    def checked_locks(self, locks: Sequence[tuple[int, int]], most: int) -> dict[int, int]:
        """Codes of a plan that are given, by their places."""
        self._check_codes([code for _, code in locks], "locks")
        wrong = [place for place, _ in locks if not 0 <= place < most]
        if wrong:
            raise BadRequest(f"`locks`: place {wrong[0]}; a plan of the model has places 0 to {most - 1}", "locks")
        return dict(locks)

    def _check_codes(self, codes: Iterable[int], parameter: str) -> None:
        known = 0 if self.latent is None else self.latent.num_codes
        wrong = [code for code in codes if not 0 <= code < known]
        if wrong:
            told = f"code {wrong[0]} is none of the model's {known}; give numbers from 0 to {known - 1}"
            raise BadRequest(f"`{parameter}`: {told}", parameter)

    def prompt_ids(self, prompt: str) -> list[int]:
        """The prompt with the symbols around it, cut to the model's prompt length as in training, with a warning."""
        ids, longest = self._ids(prompt, "prompt"), self.lengths.prompt_tokens
        if len(ids) > longest:
            warnings.warn(f"a prompt of {len(ids):,} subwords was cut to the model's {longest:,}", stacklevel=2)
        around = self.generator_engine.vocabulary
        return [*around.prompt_start, *ids[:longest], *around.prompt_end]

    def _ids(self, text: str, what: str) -> list[int]:
        """Subwords as in training, a space before the text."""
        if not text.strip():
            raise BadRequest(f"an empty {what}; give a few words")
        return list(self._tokenizer.encode(as_input(text.strip()), add_special_tokens=False).ids)
