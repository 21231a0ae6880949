"""Stages `plot-writer` and `story-writer`: the two writers of Aristotelian Rescoring (section 4.3).

Both are `seq2seq` with the tags of plots in the vocabulary: prompt -> plot, and prompt and plot -> tagged story
(`plots/` and `stories/` of the plots stage).
"""

from pathlib import Path
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from discodvt.baselines.plots import add_tags
from discodvt.training.assembly import Corpus, Site
from discodvt.training.feeds import DropoutSchedule
from discodvt.training.stages import Stage
from discodvt.training.stages.seq2seq import Seq2Seq, TextObjective
from discodvt.training.weights import language_model


class PlotWriter(Seq2Seq):
    summary = "A writer of Aristotelian Rescoring: of plots from prompts, or of tagged stories from prompts and plots."

    stage: Literal["plot-writer", "story-writer"]  # type: ignore[assignment]

    def open_tokenizer(self, last: Path | None) -> PreTrainedTokenizerBase:
        tokenizer = super().open_tokenizer(last)
        add_tags(tokenizer)
        return tokenizer

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model: Any = language_model(self.model, corpus.tokenizer, site.last)
        make_room(model, corpus.tokenizer)
        dropout = DropoutSchedule.over(self.total(len(corpus.train)), self.word_dropout)
        train, valid = corpus.story_feeds(seed=self.seed, dropout=dropout)
        return self.staged(TextObjective(model), train, valid, corpus)


def make_room(model: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    """Rows for tags the model does not know yet."""
    if len(tokenizer) > model.get_input_embeddings().num_embeddings:
        model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
