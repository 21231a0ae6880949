"""BLEU-n and reverse BLEU-n: unsmoothed sentence BLEU (Papineni et al. 2002) with uniform weights up to n, averaged.

Equal to NLTK's `sentence_bleu` without smoothing, also where it is odd: no matching word gives 0; a matching word but
no match of a higher order (or a hypothesis shorter than it) takes that precision as the smallest normal float, so the
score is about 1e-154 and not 0. Reverse BLEU (Shi et al. 2018) swaps hypothesis and reference; the clipped matches are
the same both ways, so they are counted once.
"""

import sys
from collections.abc import Mapping

import numpy as np

from discodvt.evaluation.arrays import Floats, Ints
from discodvt.evaluation.grams import GramCounts, Parts
from discodvt.evaluation.measure import StoryMean
from discodvt.evaluation.tokens import Tokens

ORDERS = (1, 2)


def bleu(hypotheses: Tokens, references: Tokens, grams: Mapping[int, Parts]) -> StoryMean:
    """B-n and rB-n from the n-grams counted side by side (side 0 hypotheses, side 1 references)."""
    matches = np.stack([sum(map(_matches, grams[order])) for order in ORDERS], axis=1)
    forward = [sentence_bleu(matches, hypotheses.lengths, references.lengths, order=order) for order in ORDERS]
    reverse = [sentence_bleu(matches, references.lengths, hypotheses.lengths, order=order) for order in ORDERS]
    rules = f"weights:uniform|smooth:none|case:mixed|tok:{hypotheses.tokenizer}|average:story"
    return StoryMean(
        names=tuple(f"{prefix}-{order}" for prefix in ("B", "rB") for order in ORDERS),
        definitions=tuple(f"{name}:{order}|{rules}" for name in ("bleu", "reverse-bleu") for order in ORDERS),
        direction="higher",
        per_story=np.stack(forward + reverse, axis=1),
    )


def sentence_bleu(matches: Floats, hypothesis: Ints, reference: Ints, *, order: int) -> Floats:
    """BLEU of each pair from its clipped matches [N, orders] and the two lengths in tokens [N]."""
    totals = np.maximum(hypothesis[:, None] - np.arange(order), 1)
    precision = np.where(matches[:, :order] > 0, matches[:, :order] / totals, sys.float_info.min)
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.where(hypothesis > reference, 1.0, np.exp(1 - reference / hypothesis))
    return np.where(matches[:, 0] > 0, brevity * np.exp(np.log(precision).mean(axis=1)), 0.0)


def _matches(grams: GramCounts) -> Floats:
    """For each pair, how many of the hypothesis' n-grams the reference has, each counted as often as both have it."""
    same_gram = np.ones(len(grams.text), dtype=bool)
    same_gram[grams.bounds[:-1]] = False  # as the entry before
    both = np.flatnonzero(same_gram[1:] & (grams.text[1:] == grams.text[:-1]))
    clipped = np.minimum(grams.count[both], grams.count[both + 1])
    return np.bincount(grams.text[both], clipped, grams.texts).astype(np.float64)
