"""Stage `seq2seq`: a language model learns to write stories from prompts, without a plan (section 4.3).

`TextRecipe` and `TextObjective` are also those of the baselines' language models.
"""

from typing import Literal

from transformers import PreTrainedModel

from discodvt.config import LossValidation, TunedBackbone, WordDropout
from discodvt.data.batches import Batch
from discodvt.model.backbones import Prompt, new_backbone
from discodvt.training.assembly import Corpus, Site
from discodvt.training.feeds import DropoutSchedule
from discodvt.training.parts import TunedRecipe, begin_part
from discodvt.training.stages import Objective, Stage, StageOutput, Term
from discodvt.training.weights import language_model


class TextObjective(Objective):
    """A language model that writes stories: from prompts, or from corrupted stories in their place.

    Equation 4 without a plan; for BART with a corrupted prompt it is its denoising.
    """

    terms = {"reconstruction": Term(1.0, "tokens")}  # noqa: RUF012

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model)
        self.backbone = new_backbone(model.config)

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        story = batch.get("decoder_ids", batch["story_ids"])
        prompt = Prompt(batch["prompt_ids"], batch["prompt_mask"])
        states = self.backbone.decode(self.model, prompt, story, None, use_cache=False).last_hidden_state
        return StageOutput({"reconstruction": self.backbone.summed_loss(self.model, states, batch["labels"])})


class TextRecipe(TunedRecipe):
    """A stage that trains a plain language model to write texts; baselines have more of them."""

    model: TunedBackbone = TunedBackbone()
    word_dropout: WordDropout = WordDropout()
    validation: LossValidation = LossValidation()

    def open_model(self, corpus: Corpus, site: Site) -> PreTrainedModel:
        """The language model; a causal one keeps its SEP where a writer looks for it."""
        model = language_model(self.model, corpus.tokenizer, site.last)
        if not model.config.is_encoder_decoder:
            model.config.separator_token_id = corpus.symbols.story_start
        return model

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model = self.open_model(corpus, site)
        dropout = DropoutSchedule.over(self.total(len(corpus.train)), self.word_dropout)
        train, valid = corpus.story_feeds(seed=self.seed, dropout=dropout)
        objective = TextObjective(model)
        objective.part = begin_part(model, self.model, tune=self.model.tune, lora=self.lora, inside="", last=site.last)
        objective.not_trained = ("",) if self.model.tune == "lora" else ()  # all but LoRA
        return self.staged(objective, train, valid, corpus)


class Seq2Seq(TextRecipe):
    summary = "A language model trained to write stories from prompts, without a plan."

    stage: Literal["seq2seq"]
