"""How far judges agree: Fleiss' kappa (1971) with a bootstrap interval, raw agreement, Krippendorff's alpha (nominal).

Votes are counts [items, categories]. Kappa needs the same number of votes for every item; alpha takes what there is.
"""

import math

import numpy as np

from discodvt.evaluation.intervals import LEVEL
from discodvt.evaluation.metric import Floats, Ints

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
