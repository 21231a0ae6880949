"""How often stories use each relation: shares of the four categories, their entropy, their distance from human ones.

Entropy and Kullback-Leibler divergence KL(human || model) in bits over the categories (section 4.6, appendix A.2.2).
Both are estimated from counts, with a bias that changes with the amount of text, so their intervals come from random
halves; shares are bootstrapped.
"""

import numpy as np

from discodvt.discourse.labels import CATEGORIES, MARKERS
from discodvt.evaluation.arrays import Floats
from discodvt.evaluation.discourse.pooled import Pooled

# [markers, categories]: which marker belongs to which category
MEMBERSHIP: Floats = np.array([[marker in members for members in CATEGORIES.values()] for marker in MARKERS], float)
UNUSED = 0.5  # pairs: a category the model never uses would make the divergence infinite


def fractions(counts: Floats) -> Floats:
    """Counts [..., k] as shares of their sum."""
    return np.asarray(counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1))


def entropy_bits(shares: Floats) -> Floats:
    """Entropy in bits of distributions [..., k]."""
    return np.asarray(-(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1))


def kl_bits(human: Floats, model: Floats) -> Floats:
    """KL(human || model) in bits of distributions [..., k]; the model's must have no zero."""
    return np.asarray((human * np.log2(np.where(human > 0, human, 1) / model)).sum(axis=-1))


def share_scores(counts: Floats) -> Pooled:
    """The share of every category and of every marker among the marker pairs, from counts [N, markers]."""
    named = (*CATEGORIES, *MARKERS)

    def score(sums: Floats) -> Floats:
        markers = fractions(sums)
        return np.concatenate([markers @ MEMBERSHIP, markers], axis=-1)

    return Pooled(
        names=tuple(f"share-{name}" for name in named),
        definitions=tuple(f"relation-share:{name}|of:marker-pairs" for name in named),
        direction="none",
        counts=counts,
        score=score,
    )


def entropy_score(counts: Floats) -> Pooled:
    """Entropy of the category shares; the paper holds more for better."""
    return Pooled(
        names=("entropy",),
        definitions=("relation-entropy:bits|over:categories",),
        direction="higher",
        counts=counts,
        score=lambda sums: entropy_bits(fractions(sums @ MEMBERSHIP))[:, None],
        unit="bits",
        resampling="subsample",
    )


def divergence_score(counts: Floats, human: Floats) -> Pooled:
    """KL(human || model) of the category shares; the human counts [markers] are taken as given, not drawn."""
    target = fractions(human @ MEMBERSHIP)
    return Pooled(
        names=("KL",),
        definitions=(f"relation-kl:human-model|bits|over:categories|unused:{UNUSED}-pairs|human:fixed",),
        direction="lower",
        counts=counts,
        score=lambda sums: kl_bits(target, fractions(np.maximum(sums @ MEMBERSHIP, UNUSED)))[:, None],
        unit="bits",
        resampling="subsample",
    )
