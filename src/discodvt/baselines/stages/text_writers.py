"""Stages of baselines that are `seq2seq` on other text (section 4.3).

`language-model` is BART-LM's post-training, plain language modelling of books. The encoder gets an empty prompt,
`<s></s>`, as in the warm start (section 3.5): with its books and its steps, what is left of the difference is the plan.
Then `seq2seq` on stories, with a fresh optimizer.

`plot-writer` and `story-writer` are the two writers of Aristotelian Rescoring, with the tags of plots in their
vocabulary: prompt -> plot, and prompt and plot -> tagged story (`plots/` and `stories/` of the plots stage).
"""

from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from discodvt.baselines.plots import add_tags
from discodvt.config import ConstantRate
from discodvt.training.assembly import Corpus, Site
from discodvt.training.stages.seq2seq import TextRecipe


class LanguageModel(TextRecipe):
    summary = "A language model post-trained on contiguous text, without prompts and without a plan (BART-LM)."
    reads_prompts = False

    stage: Literal["language-model"]
    optimizer: ConstantRate = ConstantRate()


class PlotWriter(TextRecipe):
    summary = "A writer of Aristotelian Rescoring: of plots from prompts, or of tagged stories from prompts and plots."

    stage: Literal["plot-writer", "story-writer"]

    def contradictions(self) -> list[str]:
        wrong = super().contradictions()
        if self.model.tune != "all":  # what a part stores has no rows for new tags
            wrong.append(f"model.tune: {self.model.tune}, but the tags of plots need rows of their own; give all")
        return wrong

    def open_tokenizer(self, last: Path | None) -> PreTrainedTokenizerBase:
        tokenizer = super().open_tokenizer(last)
        add_tags(tokenizer)
        return tokenizer

    def open_model(self, corpus: Corpus, site: Site) -> PreTrainedModel:
        model = super().open_model(corpus, site)
        make_room(model, corpus.tokenizer)
        return model


def make_room(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    """Rows for tags the model does not know yet."""
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
