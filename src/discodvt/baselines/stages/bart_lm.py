"""Stage `language-model`: BART-LM's post-training, plain language modelling of books (section 4.3).

The encoder gets an empty prompt, `<s></s>`, as in the warm start (section 3.5): with its books and its steps, what is
left of the difference is the plan. Then `seq2seq` on stories, with a fresh optimizer.
"""

from typing import Literal

from discodvt.training.stages.seq2seq import TextRecipe
from discodvt.training.stages.warm_start import ConstantRate


class LanguageModel(TextRecipe):
    summary = "A language model post-trained on contiguous text, without prompts and without a plan (BART-LM)."
    reads_prompts = False

    stage: Literal["language-model"]
    optimizer: ConstantRate = ConstantRate()
