"""Scores that are a mean over stories: repetition (rep-l), length, and the share of stories that ended by themselves.

rep-l (Welleck et al. 2020) is the share of a story's tokens that occur among the l tokens before them. Tokens keep
their case. The paper says "the previous l tokens"; the authors' script looks at l - 1, available by option.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discodvt.evaluation.metric import StoryMean
from discodvt.evaluation.metrics.word_tokens import WordTokens

RANGES = (8, 16)
LookBack: TypeAlias = Literal["paper", "code"]


def nearest_repeats(stories: WordTokens) -> NDArray[np.int8]:
    """How far back the same token of the same story stands, for every token; the longest range plus one where none."""
    own = stories.ids.astype(np.int64) * len(stories) + stories.text  # equal only for the same token of the same story
    nearest = np.full(len(own), max(RANGES) + 1, dtype=np.int8)
    for distance in range(max(RANGES), 0, -1):
        np.copyto(nearest[distance:], distance, where=own[distance:] == own[:-distance])
    return nearest


def repetition(stories: WordTokens, *, look_back: LookBack = "paper") -> StoryMean:
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


def lengths(stories: WordTokens, references: WordTokens) -> StoryMean:
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
