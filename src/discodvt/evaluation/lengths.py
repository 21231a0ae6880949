"""How long the stories are beside their references, and how many came to an end of their own."""

from collections.abc import Sequence

import numpy as np

from discodvt.evaluation.measure import StoryMean
from discodvt.evaluation.tokens import Tokens


def lengths(stories: Tokens, references: Tokens) -> StoryMean:
    """Mean length in tokens of the stories and of their references."""
    return StoryMean(
        names=("length", "length-ref"),
        definitions=tuple(f"length:{side}|tok:{stories.tokenizer}|average:story" for side in ("stories", "references")),
        direction="none",
        per_story=np.stack([stories.lengths, references.lengths], axis=1).astype(np.float64),
        unit="tokens",
    )


def finish_rate(finishes: Sequence[str]) -> StoryMean:
    """The share of stories whose `finish` is `end`: the writer closed them before the length limit did."""
    return StoryMean(
        names=("finish",),
        definitions=("finish:end|average:story",),
        direction="none",
        per_story=np.array([[finish == "end"] for finish in finishes], dtype=np.float64),
    )
