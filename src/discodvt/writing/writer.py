"""`StoryWriter`: prompt -> plan -> story. The prior draws a plan, the generator writes along it (sections 3.4 and 4.2).

A story depends on its prompt, its plan, the params and its random stream (seed, index, prompt), not on the stories
beside it: what is computed before its first word is computed alone; for what comes after see `bart` and `drawing`.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from discodvt.data.subwords import as_input
from discodvt.errors import BadRequest
from discodvt.writing.baseline_writers import baseline_writer
from discodvt.writing.decoding import Draft, decode
from discodvt.writing.detokenizer import Detokenizer
from discodvt.writing.layers import int8_levels
from discodvt.writing.loading import LoadedWriter, load_writer
from discodvt.writing.sampling import SamplingParams, stream_key
from discodvt.writing.story import Request, Segment, Story, cut_to_sentence, live_text, segments_of

if TYPE_CHECKING:
    from transformers import BartForConditionalGeneration, PreTrainedTokenizerBase

    from discodvt.model import DiscoDVT, PlanPrior


class StoryStream:
    """A story as it is written: iterate once over pieces of text, which join to `story.text`; then `story` is there.

    Meanwhile `text` is what has come so far, and `segments` tells which code governs what of it.
    """

    def __init__(self, writer: "StoryWriter", draft: "StoryDraft", params: SamplingParams) -> None:
        self.text = ""
        self.segments: tuple[Segment, ...] = ()
        self._story: Story | None = None
        self._pieces = self._write(writer, draft, params)

    @property
    def story(self) -> Story:
        """The whole story."""
        if self._story is None:
            raise BadRequest("the story is not written yet; iterate over its stream first")
        return self._story

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def _write(self, writer: "StoryWriter", draft: "StoryDraft", params: SamplingParams) -> Iterator[str]:
        for text, segments in writer._growth(draft, params):
            yield from self._grow(text, segments)
        self._story = writer._story(draft)
        yield from self._grow(self._story.text, self._story.segments)

    def _grow(self, text: str, segments: tuple[Segment, ...]) -> Iterator[str]:
        """The new piece, if there is one: what was shown is never taken back."""
        piece = text[len(self.text) :]
        if piece:
            self.text, self.segments = text, segments
            yield piece


class StoryWriter:
    """Writes stories along plans; around a plain BART, without."""

    def __init__(self, parts: LoadedWriter) -> None:
        self._checkpoint, self.lengths = parts.checkpoint, parts.checkpoint.lengths
        self.name, self.directory = parts.checkpoint.name, parts.checkpoint.directory
        self.model_defaults = parts.model_defaults  # temperature and repetition penalty where none is given
        self.int8 = parts.int8
        self._generator, self._latent, self._prior = parts.generator, parts.latent, parts.prior
        self._tokenizer, self._detokenizer = parts.subwords, Detokenizer(parts.subwords)
        self.device = parts.generator.decoder.positions.device

    @classmethod
    def from_pretrained(
        cls, source: str | Path | None = None, *, int8: bool = False, device: str | torch.device | None = None
    ) -> "StoryWriter":
        """Open a directory, a Hub id, or (None) the storyteller that ships; on a GPU where there is one."""
        place = torch.device(device or ("cuda" if torch.cuda.is_available() and not int8 else "cpu"))
        if int8 and place.type != "cpu":
            raise BadRequest(f"`int8`: for the CPU only, not for {place}; leave one of the two out", "int8")
        if int8 and int8_levels(torch.backends.quantized.engine) is None:
            warnings.warn("int8: PyTorch has no kernel for it on this machine; weights stay float32", stacklevel=2)
        parts = load_writer(source, place, int8=int8)
        return baseline_writer(parts) or cls(parts)

    @cached_property
    def model(self) -> "DiscoDVT | BartForConditionalGeneration":
        """The same weights as a Hugging Face model, opened when first asked for: writing does without."""
        from transformers import BartForConditionalGeneration

        from discodvt.model import DiscoDVT

        kind: Any = BartForConditionalGeneration if self._latent is None else DiscoDVT
        model: DiscoDVT | BartForConditionalGeneration = self._checkpoint.load(kind, device=self.device)
        return model

    @cached_property
    def prior(self) -> "PlanPrior | None":
        """The prior as a Hugging Face model, if there is one."""
        from discodvt.model import PlanPrior

        prior = self._checkpoint.prior
        return None if prior is None else prior.load(PlanPrior, device=self.device)

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
        if batch_size < 1:
            raise BadRequest(f"`batch_size` {batch_size}: expected 1 or more", "batch_size")
        params = params or SamplingParams()
        self.lengths.tokens(params.min_tokens, params.max_tokens)  # refuse what cannot be before anything is written
        return self._write_many(requests, params, batch_size)

    def stream(self, request: Request, params: SamplingParams | None = None) -> StoryStream:
        """One story, piece by piece."""
        params = params or SamplingParams()
        (draft,) = self._drafts([request], params, 1)
        return StoryStream(self, draft, params.resolved(self.model_defaults))

    @torch.inference_mode()
    def plan_of(self, story: str) -> tuple[int, ...]:
        """The plan of a story: the posterior's likeliest codes."""
        if self._latent is None:
            raise BadRequest(f"{self.name}: a plain BART, which knows no plans; give a DiscoDVT")
        ids = self._ids(story, "story")
        longest = self.lengths.max_tokens - 1
        if len(ids) > longest:
            warnings.warn(f"a story of {len(ids):,} subwords was read up to subword {longest:,}", stacklevel=2)
        read = torch.tensor([[self._generator.start, *ids[:longest]]], device=self.device)
        posterior: Any = self.model
        codes: list[int] = posterior.plan(read, torch.ones_like(read))[0].tolist()
        return tuple(code for code in codes if code < self._latent.num_codes)

    def _write_many(self, requests: Iterable[Request], params: SamplingParams, rows: int) -> Iterator[Story]:
        _, longest = self.lengths.tokens(params.min_tokens, params.max_tokens)
        drafts = self._drafts(requests, params, rows)
        for draft in decode(self._generator, drafts, params.resolved(self.model_defaults), rows=rows, length=longest):
            if draft.done:
                yield self._story(draft)

    def _growth(self, draft: "StoryDraft", params: SamplingParams) -> Iterator[tuple[str, tuple[Segment, ...]]]:
        """Write a draft; at every step before its last, what of the text can be shown, and its segments."""
        grown = self._detokenizer.growing()
        for _ in decode(self._generator, [draft], params, rows=1, length=draft.most):
            if not draft.done:
                grown.add(draft.symbols[-1])
                text, starts = grown.stripped()
                text = live_text(text, early=len(draft.symbols) <= draft.most // 2)
                yield text, self._segments(draft.plan, starts, text)

    def _story(self, draft: "StoryDraft") -> Story:
        """The story of a finished draft."""
        grown = self._detokenizer.growing()
        for symbol in draft.symbols:
            grown.add(symbol)
        grown.end()
        text, starts = grown.stripped()
        if not draft.ended:
            text = cut_to_sentence(text, earliest=starts[draft.most // 2])
        request = draft.request
        return Story(
            id=request.id or str(request.index),
            prompt=request.prompt,
            text=text,
            plan=draft.plan,
            seed=request.seed,
            model=self.name,
            finish="end" if draft.ended else "length",
            segments=self._segments(draft.plan, starts, text),
            index=request.index,
        )

    def _segments(self, plan: Sequence[int], starts: Sequence[int], text: str) -> tuple[Segment, ...]:
        return segments_of(plan, starts, len(text), self._latent.tokens_per_code) if self._latent else ()

    def _drafts(self, requests: Iterable[Request], params: SamplingParams, rows: int) -> Iterator["StoryDraft"]:
        """Requests with plan, ready to be written; plans are drawn for as many at a time as are written at a time."""
        fewest, most = self.lengths.tokens(params.min_tokens, params.max_tokens)
        waiting = iter(requests)
        while together := list(islice(waiting, rows)):
            prompts = [self._prompt_ids(request.prompt) for request in together]
            plans = self._plans(together, prompts, params, rows)
            for request, prompt, plan in zip(together, prompts, plans, strict=True):
                yield StoryDraft(
                    request=request,
                    plan=plan,
                    control=self._control(request, prompt, plan, most),
                    prompt=self._generator.prompt(prompt),
                    key=stream_key(request.seed, request.index, request.prompt.strip(), "text"),
                    fewest=fewest,
                    most=most,
                )

    def _control(self, request: Request, prompt: Tensor, plan: tuple[int, ...], most: int) -> Tensor:
        """What is added to the embeddings of a story's symbols [most, D]: positions, and the latent of its plan."""
        positions = self._generator.decoder.positions[:most]
        return positions if self._latent is None else self._latent(plan, most) + positions

    def _plans(
        self, requests: Sequence[Request], prompts: Sequence[Tensor], params: SamplingParams, rows: int
    ) -> list[tuple[int, ...]]:
        """The plan of each request: given, drawn from the prior, or none around a plain BART."""
        plans = [self._checked(request.plan) for request in requests]
        missing = [number for number, plan in enumerate(plans) if plan is None and self._latent is not None]
        if missing:
            asked = [(requests[number], prompts[number]) for number in missing]
            for number, plan in zip(missing, self._drawn_plans(asked, params, rows), strict=True):
                plans[number] = plan
        return [plan or () for plan in plans]

    def _drawn_plans(
        self, asked: Sequence[tuple[Request, Tensor]], params: SamplingParams, rows: int
    ) -> list[tuple[int, ...]]:
        """Plans from the prior, the whole of its distribution."""
        if self._prior is None:
            raise BadRequest(
                f"{self.directory}: no prior/ in it, so no plan can be drawn; "
                "train the `prior` stage on it (discodvt train), or give a plan"
            )
        fewest, most = self.lengths.codes(params.min_codes, params.max_codes)
        drafts = [
            Draft(
                control=self._prior.decoder.positions[:most],
                prompt=self._prior.prompt(prompt),
                key=stream_key(request.seed, request.index, request.prompt.strip(), "plan"),
                fewest=fewest,
                most=most,
            )
            for request, prompt in asked
        ]
        for _ in decode(self._prior, drafts, params.for_plans(), rows=rows, length=most):
            pass
        return [tuple(draft.symbols) for draft in drafts]

    def _checked(self, plan: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """A given plan, if the model can follow it."""
        if plan is None:
            return None
        if self._latent is None:
            raise BadRequest(f"{self.name}: a plain BART, which follows no plan; leave it out, or give a DiscoDVT")
        codes, most = self._latent.num_codes, self.lengths.positions // self._latent.tokens_per_code
        wrong = [code for code in plan if not 0 <= code < codes]
        if wrong:
            raise BadRequest(
                f"`plan`: code {wrong[0]} is none of the model's {codes}; give numbers from 0 to {codes - 1}", "plan"
            )
        if not 1 <= len(plan) <= most:
            raise BadRequest(f"`plan`: {len(plan)} codes; the model's positions hold 1 to {most}", "plan")
        return plan

    def _prompt_ids(self, prompt: str) -> Tensor:
        """`<s> x </s>` [N], cut to the model's prompt length as in training, with a warning."""
        ids, longest = self._ids(prompt, "prompt"), self.lengths.prompt_tokens
        if len(ids) > longest:
            warnings.warn(f"a prompt of {len(ids):,} subwords was cut to the model's {longest:,}", stacklevel=2)
        return torch.tensor([self._generator.start, *ids[:longest], self._generator.end], device=self.device)

    def _ids(self, text: str, what: str) -> list[int]:
        """Subwords as in training, a space before the text."""
        if not text.strip():
            raise BadRequest(f"an empty {what}; give a few words")
        return list(self._tokenizer.encode(as_input(text.strip()), add_special_tokens=False).ids)


@dataclass(slots=True, kw_only=True)
class StoryDraft(Draft):
    """A story in the making."""

    request: Request
    plan: tuple[int, ...]
