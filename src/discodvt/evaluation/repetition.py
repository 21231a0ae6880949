"""rep-l (Welleck et al. 2020): the share of a story's tokens that occur among the l tokens before them, averaged.

Tokens keep their case. The paper says "the previous l tokens"; the authors' script looks at l - 1, available by option.
"""

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discodvt.evaluation.measure import StoryMean
from discodvt.evaluation.tokens import Tokens

RANGES = (8, 16)
LookBack: TypeAlias = Literal["paper", "code"]


def nearest_repeats(stories: Tokens) -> NDArray[np.int8]:
    """How far back the same token of the same story stands, for every token; the longest range plus one where none."""
    own = stories.ids.astype(np.int64) * len(stories) + stories.text  # equal only for the same token of the same story
    nearest = np.full(len(own), max(RANGES) + 1, dtype=np.int8)
    for distance in range(max(RANGES), 0, -1):
        np.copyto(nearest[distance:], distance, where=own[distance:] == own[:-distance])
    return nearest


def repetition(stories: Tokens, *, look_back: LookBack = "paper") -> StoryMean:
    """rep-8 and rep-16 of each story."""
    nearest = nearest_repeats(stories)
    reaches = [reach - (look_back == "code") for reach in RANGES]
    repeated = [np.bincount(stories.text, weights=nearest <= reach, minlength=len(stories)) for reach in reaches]
    return StoryMean(
        names=tuple(f"rep-{reach}" for reach in RANGES),
        definitions=tuple(
            f"repetition:{named}|look-back:{reach}|case:mixed|tok:{stories.tokenizer}|average:story"
            for named, reach in zip(RANGES, reaches, strict=True)
        ),
        direction="lower",
        per_story=np.stack(repeated, axis=1) / np.maximum(stories.lengths, 1)[:, None],
    )
