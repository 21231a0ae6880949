"""MS-Jaccard-n (Alihosseini et al. 2019): how alike the n-gram counts of two sets of texts are.

For each order up to n: the sum over n-grams of the smaller count over the sum of the larger, counts divided by the
number of texts; then the geometric mean over the orders. With s = the sum of both sides' counts and d = the sum of
their absolute differences, that ratio is (s - d) / (s + d). An order of which neither side has any n-gram scores 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from discodvt.evaluation.metric import Floats, Metric, Resampling, Weights, sum_over_texts
from discodvt.evaluation.metrics.ngrams import Parts, sum_over_ngrams

ORDERS = (2, 3)


@dataclass(frozen=True, kw_only=True)
class Jaccard(Metric):
    """MSJ-n of stories paired with references."""

    grams: Mapping[int, Parts]  # order 1 .. 3, side 0 stories, side 1 references
    resampling: Resampling = "subsample"

    @property
    def values(self) -> Floats:
        return ms_jaccard(self.grams, texts=(1, 1))  # as many references as stories: the number cancels

    def under(self, weights: Weights) -> Floats:
        return _means([order.ratio(weights) for order in self._orders])

    @cached_property
    def _orders(self) -> list["_Paired"]:
        return [_Paired.of(self.grams[order]) for order in sorted(self.grams)]


def jaccard(grams: Mapping[int, Parts], tokenizer: str) -> Jaccard:
    """MSJ-2 and MSJ-3 from the n-grams counted side by side."""
    definitions = (f"ms-jaccard:{order}|mean:geometric|case:mixed|tok:{tokenizer}" for order in ORDERS)
    return Jaccard(names=tuple(f"MSJ-{order}" for order in ORDERS), definitions=tuple(definitions), grams=grams)


@dataclass(frozen=True, slots=True)
class _Paired:
    """One order's statistics by pair: s is a plain sum over pairs, d is one but for n-grams that both sides have."""

    together: Floats  # [pairs]
    one_sided: Floats  # [pairs]
    shared: list[csr_array]  # [grams, pairs], story count minus reference count

    @classmethod
    def of(cls, parts: Parts) -> "_Paired":
        together, one_sided, matrix = np.zeros(parts[0].texts), np.zeros(parts[0].texts), []
        for part in parts:
            signed = np.where(part.side == 0, part.count, -part.count)
            shared = np.abs(part.per_gram(signed)) < part.per_gram(part.count)
            together += part.per_text(part.count)
            one_sided += part.per_text(part.count, where=~shared)
            matrix += part.matrix(signed, where=shared)
        return cls(together, one_sided, matrix)

    def ratio(self, weights: Weights) -> Floats:
        shared = sum_over_ngrams(self.shared, weights, lambda counts, _: np.abs(counts).sum(axis=0, dtype=np.float32))
        return _ratio(sum_over_texts(weights, self.together), sum_over_texts(weights, self.one_sided) + shared)


def ms_jaccard(grams: Mapping[int, Parts], *, texts: tuple[int, int]) -> Floats:
    """MSJ-2 and MSJ-3 of two sets with so many texts; counts are brought to a common number of texts as integers."""
    factors = np.array([texts[1], -texts[0]], dtype=np.min_scalar_type(-max(texts)))
    ratios = []
    for order in sorted(grams):
        together = apart = 0
        for part in grams[order]:
            scaled = part.count * factors[part.side]
            together += int(np.abs(scaled).sum())
            apart += int(np.abs(part.per_gram(scaled)).sum())
        ratios.append(_ratio(np.array(together), np.array(apart)))
    return _means(ratios)


def _ratio(together: Floats, apart: Floats) -> Floats:
    return np.asarray((together - apart) / np.maximum(together + apart, 1))


def _means(ratios: list[Floats]) -> Floats:
    """From the ratio of each order, the geometric means over orders 1 to n, [..., k]."""
    return np.stack([np.prod(ratios[:order], axis=0) ** (1 / order) for order in ORDERS], axis=-1)
