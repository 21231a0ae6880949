"""The statistics of a study: which system is preferred, and how far judges agree.

The primary test is two-sided over items: each item is one majority decision, ties are dropped and counted. The paper's
stars follow from none of the readings of its text but a one-sided test over single judgements (pooled), which takes the
judges of an item for independent; it is computed too, under that name, and beside it a sign-flip test that flips items.

Agreement is Fleiss' kappa (1971) with a bootstrap interval, raw agreement, and Krippendorff's alpha (nominal). Votes
are counts [items, categories]. Kappa needs the same number of votes for every item; alpha takes what there is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from scipy.stats import binomtest

from discodvt.evaluation.intervals import LEVEL
from discodvt.evaluation.metric import Floats, Ints

Outcome: TypeAlias = Literal["win", "lose", "tie"]
OUTCOMES: tuple[Outcome, ...] = ("win", "lose", "tie")


@dataclass(frozen=True, slots=True)
class Tally:
    """Wins, losses and ties of one system against another."""

    win: int
    lose: int
    tie: int

    @property
    def n(self) -> int:
        return self.win + self.lose + self.tie

    @property
    def decided(self) -> int:
        return self.win + self.lose


def majority(votes: Sequence[int], judges: int) -> Outcome | Literal["split", "open"]:
    """The decision of an item from its votes (win, lose, tie), of `judges` that were asked for.

    More than half of them decide. Where all have voted without a majority it is a `split`, which counts as a tie;
    where some are missing that could decide, the item is `open`.
    """
    best = max(range(3), key=lambda kind: votes[kind])
    if 2 * votes[best] > judges:
        return OUTCOMES[best]
    return "split" if sum(votes) >= judges else "open"


@lru_cache(maxsize=10_000)  # planning asks for the same few again and again
def sign_test(tally: Tally, *, sides: Literal["one", "two"] = "two") -> float:
    """p of the exact sign test: wins against losses, ties out. One-sided: that wins are more likely."""
    if tally.decided == 0:
        return 1.0
    alternative = "two-sided" if sides == "two" else "greater"
    return float(binomtest(tally.win, tally.decided, 0.5, alternative=alternative).pvalue)


@lru_cache(maxsize=10_000)
def win_interval(tally: Tally) -> tuple[float, float] | None:
    """Wilson's interval of the share of wins among decided items."""
    if tally.decided == 0:
        return None
    ends = binomtest(tally.win, tally.decided).proportion_ci(LEVEL, method="wilson")
    return float(ends.low), float(ends.high)


def sign_flip(votes: Ints, *, flips: int, seed: int) -> float:
    """Two-sided p over items by flipping the sign of each item's wins minus losses; votes [items, 3]."""
    scores = votes[:, 0] - votes[:, 1]
    signs = np.random.default_rng(seed).choice([-1, 1], size=(flips, len(scores)))
    hits = int((np.abs(signs @ scores) >= abs(int(scores.sum()))).sum())
    return (1 + hits) / (1 + flips)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: all of them together are wrong as seldom as one alone."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = least
    return adjusted


def stars(p: float) -> str:
    return "**" if p < 0.01 else "*" if p < 0.05 else ""


def decided_items_needed(share: float, *, power: float = 0.8, level: float = 0.05) -> int:
    """The least number of decided items from which on the two-sided test finds a true share of wins with this power."""
    from scipy.stats import binom

    if not 0.5 < share <= 1:
        raise ValueError("the share of wins must be above 0.5")
    found, n = 0, 1
    while not found or n < found * 1.25 + 20:  # power is a saw: it must hold from here on
        tail = int(binom.ppf(level / 2, n, 0.5))
        while tail >= 0 and 2 * binom.cdf(tail, n, 0.5) > level:
            tail -= 1
        reached = tail >= 0 and binom.cdf(tail, n, 1 - share) + binom.cdf(tail, n, share) >= power
        if not reached:
            found = 0
        elif not found:
            found = n
        n += 1
    return found


WORDS = (
    (0.0, "poor"),
    (0.2, "slight"),
    (0.4, "fair"),
    (0.6, "moderate"),
    (0.8, "substantial"),
    (1.0, "almost perfect"),
)


def fleiss_kappa(votes: Ints) -> float | None:
    """Agreement beyond chance; None where chance alone agrees always (one category), or without two votes an item."""
    value = float(_kappas(votes, np.ones((1, len(votes))))[0]) if len(votes) else math.nan
    return None if math.isnan(value) else value


def raw_agreement(votes: Ints) -> float | None:
    """The share of pairs of votes on an item that are alike."""
    each = _pairs_alike(votes.astype(np.float64))
    return float(each.mean()) if len(votes) and not np.isnan(each).any() else None


def kappa_interval(votes: Ints, *, resamples: int, seed: int) -> tuple[float, float] | None:
    """Percentile bootstrap over items; None where all agree on everything, of which resamples say nothing."""
    point = fleiss_kappa(votes)
    if point is None or len(votes) < 2 or point >= 1:
        return None
    weights = np.random.default_rng(seed).multinomial(len(votes), np.full(len(votes), 1 / len(votes)), size=resamples)
    replicates = _kappas(votes, weights)
    replicates = replicates[~np.isnan(replicates)]
    if len(replicates) == 0:
        return None
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(min(low, point)), float(max(high, point))


def krippendorff_alpha(votes: Ints) -> float | None:
    """1 - observed / expected disagreement over all items with two votes or more; None where all votes are alike."""
    pairable = votes[votes.sum(axis=1) >= 2].astype(np.float64)
    sizes = pairable.sum(axis=1)
    total = sizes.sum()
    if total == 0:
        return None
    alike = ((pairable**2).sum(axis=1) - sizes) / (sizes - 1)  # ordered pairs in agreement, weighted by 1 / (m - 1)
    observed = 1 - alike.sum() / total
    shares = pairable.sum(axis=0)
    expected = 1 - ((shares**2).sum() - total) / (total * (total - 1))
    return None if expected == 0 else float(1 - observed / expected)


def in_words(kappa: float) -> str:
    """Landis and Koch's (1977) words; the paper's "moderate" is .4 up to .6."""
    return next((word for most, word in WORDS if kappa <= most), WORDS[-1][1])


def _pairs_alike(votes: Floats) -> Floats:
    """The share of agreeing pairs of votes of each item, [items]; NaN for a single vote."""
    judges = votes.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(((votes**2).sum(axis=1) - judges) / (judges * (judges - 1)))


def _kappas(votes: Ints, weights: Ints | Floats) -> Floats:
    """Kappa under each row of item weights [resamples, items]; NaN where it is undefined."""
    counts = votes.astype(np.float64)
    totals = weights @ counts  # [resamples, categories]
    by_chance = ((totals / totals.sum(axis=1, keepdims=True)) ** 2).sum(axis=1)
    observed = weights @ _pairs_alike(counts) / weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappas = (observed - by_chance) / (1 - by_chance)
    return np.asarray(np.where(by_chance < 1, kappas, np.nan))
