"""Stages `plot-writer` and `story-writer`: the two writers of Aristotelian Rescoring (section 4.3).

Both are `seq2seq` with the tags of plots in the vocabulary: prompt -> plot, and prompt and plot -> tagged story
(`plots/` and `stories/` of the plots stage).
"""

from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from discodvt.baselines.plots import add_tags
from discodvt.training.assembly import Corpus, Site
from discodvt.training.stages.seq2seq import TextRecipe


class PlotWriter(TextRecipe):
    summary = "A writer of Aristotelian Rescoring: of plots from prompts, or of tagged stories from prompts and plots."

    stage: Literal["plot-writer", "story-writer"]

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
