"""Stage `pretrain`: a BART is grown from scratch by denoising stories (Lewis et al. 2020)."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from discodvt.config import LossValidation, Section
from discodvt.data.batches import Batch, Rows, collate, padded
from discodvt.data.corruption import Denoiser, generator
from discodvt.data.tokens import Tokens
from discodvt.errors import BadRequest
from discodvt.training.assembly import Corpus, FromScratch, Site
from discodvt.training.stages import Counts, Stage
from discodvt.training.stages.seq2seq import TextObjective
from discodvt.training.weights import language_model


class Denoising(Section):
    """How a story is corrupted: text infilling and sentence permutation."""

    mask_ratio: float = Field(default=0.3, ge=0, lt=1, description="Share of subwords replaced by masks")
    mean_span: float = Field(default=3.0, ge=0.1, le=1000, description="Mean of the Poisson length of a masked span")
    permute_sentences: bool = True


@dataclass(frozen=True, slots=True)
class DenoisingFeed:
    """Stories to be restored from their corruption, which takes the place of the prompt."""

    tokens: Tokens
    pad: int
    seed: int
    denoiser: Denoiser

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sort_keys(self) -> Rows:
        return self.tokens.story_lengths

    def counts(self, rows: Rows) -> Counts:
        return {"tokens": int(self.tokens.story_lengths[rows].sum()), "stories": len(rows)}

    def batch(self, rows: Rows, *, step: int | None) -> Batch:
        """In validation a story is always corrupted in the same way."""
        batch = collate(self.tokens, rows, pad=self.pad)
        corrupted = [
            self.denoiser(
                generator("denoising", seed=self.seed, step=step or 0, story=int(row)), self.tokens.stories[row]
            )
            for row in rows
        ]
        batch["prompt_ids"], batch["prompt_mask"] = padded(corrupted, self.pad)
        return batch


class Pretrain(FromScratch):
    summary = "A BART grown from scratch by denoising stories."
    reads_prompts = False

    stage: Literal["pretrain"]
    denoising: Denoising = Denoising()
    validation: LossValidation = LossValidation()

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model = language_model(self.model, corpus.tokenizer, site.last)
        if not model.config.is_encoder_decoder:
            raise BadRequest(f"{self.model.init}: a causal model; denoising is for BART, give one or a shape")
        denoiser = Denoiser.of(
            corpus.tokenizer,
            masked=self.denoising.mask_ratio,
            mean_span=self.denoising.mean_span,
            permute_sentences=self.denoising.permute_sentences,
            longest=model.config.max_position_embeddings,
        )
        train, valid = (
            DenoisingFeed(tokens, corpus.tokenizer.pad_token_id, self.seed, denoiser)
            for tokens in (corpus.train, corpus.valid)
        )
        return self.staged(TextObjective(model), train, valid, corpus)
