"""Distinct-n (Li et al. 2016): distinct n-grams over all n-grams of the lower-cased stories together.

Paper mode counts, as the authors' script does, only n-grams whose tokens all occur in the lower-cased references. The
plain ratio falls with the amount of text, so systems that write at different lengths cannot be compared by it.
Modern mode rarefies instead (Hurlbert 1971; for words HD-D, McCarthy & Jarvis 2010): the expected share of distinct
n-grams in a random sample of k of them, exact by the hypergeometric distribution. k is a quarter of the n-grams of the
shortest of references and stories, stands in the signature, and is common to the systems of a comparison. Expectation-
adjusted distinct (Liu et al. 2022) was left aside: its correction assumes uniform words, and for n above 1 vanishes.
Over a handful of n-grams halves say little: such a score says `too_few` and is not tested.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from discodvt.evaluation.metric import Floats, Metric, Resampling, Weights, sum_over_texts, too_few
from discodvt.evaluation.metrics.ngrams import Parts, count_ngrams, sum_over_ngrams
from discodvt.evaluation.metrics.word_tokens import WordTokens

ORDERS = (4, 5)


@dataclass(frozen=True, kw_only=True)
class Distinct(Metric):
    """D-n, or with sample sizes LD-n, of one system's stories."""

    grams: tuple[Parts, ...]  # one for each name
    samples: tuple[int, ...] | None  # None: all n-grams, not a sample
    resampling: Resampling = "subsample"

    @property
    def values(self) -> Floats:
        return self.under(np.ones((1, self.grams[0][0].texts), dtype=np.float32)).ravel()

    def under(self, weights: Weights) -> Floats:
        samples = self.samples or [None] * len(self._pools)
        return np.stack(
            [pool.share(weights, sample) for pool, sample in zip(self._pools, samples, strict=True)], axis=1
        )

    @cached_property
    def _pools(self) -> list["_Pool"]:
        return [_Pool.of(grams) for grams in self.grams]


@dataclass(frozen=True, slots=True)
class _Pool:
    """One order's statistics by story: n-grams found once in all are a plain sum over stories."""

    totals: Floats  # [stories]
    once: Floats  # [stories]
    often: list[csr_array]  # [grams, stories]
    largest: int

    @classmethod
    def of(cls, parts: Parts) -> "_Pool":
        totals, once, often, largest = np.zeros(parts[0].texts), np.zeros(parts[0].texts), [], 0
        for part in parts:
            pooled = part.per_gram(part.count)
            totals += part.per_text(part.count)
            once += part.per_text(part.count, where=pooled == 1)
            often += part.matrix(part.count, where=pooled > 1)
            largest = max(largest, int(pooled.max(initial=0)))
        return cls(totals, once, often, largest)

    def share(self, weights: Weights, sample: int | None) -> Floats:
        """Distinct over all n-grams under each resample, 0 where there are none; or what is expected in a sample."""
        totals, once = np.maximum(sum_over_texts(weights, self.totals), 1), sum_over_texts(weights, self.once)
        if sample is None:
            often = sum_over_ngrams(
                self.often, weights, lambda counts, _: np.minimum(counts, 1).sum(0, dtype=np.float32)
            )
            return np.asarray((once + often) / totals)
        share = weights.mean(axis=1, dtype=np.float64)  # a fold has not text enough for the whole sample
        drawn = np.clip(np.floor(sample * np.minimum(1, 2 * share)), 1, totals)
        chances = rarefied(np.arange(self.largest + 1.0)[:, None], totals, drawn)  # [count, resamples]

        def expected(counts: NDArray[np.number], columns: slice) -> Floats:
            return np.asarray(np.take_along_axis(chances[:, columns], counts.astype(np.int64), axis=0).sum(axis=0))

        return np.asarray(once / totals + sum_over_ngrams(self.often, weights, expected) / drawn)


def distinct(stories: WordTokens, references: WordTokens) -> Distinct:
    """D-4 and D-5 of the paper: n-grams with a token unknown to the references are not counted."""
    known = np.zeros(len(stories.vocabulary), dtype=bool)
    known[references.lower().ids] = True
    grams = tuple(count_ngrams([stories.lower()], ORDERS, allowed=known).values())
    names = tuple(f"D-{order}" for order in ORDERS)
    counted = [sum(int(part.count.sum()) for part in parts) for parts in grams]
    return Distinct(
        names=names,
        definitions=tuple(
            f"distinct:{order}|case:lower|tokens-known-to:references|tok:{stories.tokenizer}" for order in ORDERS
        ),
        grams=grams,
        samples=None,
        too_few=too_few(dict(zip(names, counted, strict=True)), "n-grams"),
    )


def length_corrected_distinct(stories: WordTokens, *, alongside: Sequence[WordTokens]) -> Distinct:
    """LD-4 and LD-5; `alongside` holds the references, and the other system of a comparison."""
    fewest = [min(_gram_total(each, order) for each in (stories, *alongside)) for order in ORDERS]
    samples = tuple(total // 4 for total in fewest)
    names = tuple(f"LD-{order}" for order in ORDERS)
    return Distinct(
        names=names,
        definitions=tuple(
            f"distinct:{order}|rarefied-to:{sample}|case:lower|tok:{stories.tokenizer}"
            for order, sample in zip(ORDERS, samples, strict=True)
        ),
        grams=tuple(count_ngrams([stories.lower()], ORDERS).values()),
        samples=samples,
        too_few=too_few(dict(zip(names, fewest, strict=True)), "n-grams"),
    )


def rarefied(counts: Floats, total: Floats, sample: Floats) -> Floats:
    """The chance that an n-gram found `counts` times among `total` shows up in a random sample of them."""
    others = total - counts
    missed = gammaln(others + 1) - gammaln(np.maximum(others - sample, 0) + 1)  # logarithms
    possible = gammaln(total + 1) - gammaln(total - sample + 1)
    return np.where(others < sample, 1.0, -np.expm1(missed - possible))


def _gram_total(texts: WordTokens, order: int) -> int:
    return int(np.maximum(texts.lengths - order + 1, 0).sum())
