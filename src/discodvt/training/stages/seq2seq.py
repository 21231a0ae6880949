"""Stage `seq2seq`: a BART learns to write stories from prompts, without a plan (section 4.3, for comparison)."""

from typing import Literal

from transformers import BartForConditionalGeneration

from discodvt.config import LossValidation, WordDropout
from discodvt.data.batches import Batch
from discodvt.training import losses
from discodvt.training.assembly import Corpus, FromScratch, Site
from discodvt.training.feeds import DropoutSchedule
from discodvt.training.stages import Objective, Stage, StageOutput, Term
from discodvt.training.weights import bart_model


class TextObjective(Objective):
    """A BART that writes stories: from prompts, or from corrupted stories in their place."""

    model: BartForConditionalGeneration
    terms = {"reconstruction": Term(1.0, "tokens")}  # noqa: RUF012

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        states = self.model.model(
            input_ids=batch["prompt_ids"],
            attention_mask=batch["prompt_mask"],
            decoder_input_ids=batch.get("decoder_ids", batch["story_ids"]),
            use_cache=False,
        ).last_hidden_state
        return StageOutput({"reconstruction": losses.reconstruction(states, batch["labels"], self.model)})


class Seq2Seq(FromScratch):
    summary = "A BART trained to write stories from prompts, without a plan."

    stage: Literal["seq2seq"]
    word_dropout: WordDropout = WordDropout()
    validation: LossValidation = LossValidation()

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model = bart_model(self.model, corpus.tokenizer, site.last)
        dropout = DropoutSchedule.over(self.total(len(corpus.train)), self.word_dropout)
        train, valid = corpus.story_feeds(seed=self.seed, dropout=dropout)
        return self.staged(TextObjective(model), train, valid, corpus)
