"""`compare`: which differences between two systems are real.

Both systems take the same resamples, so each resample gives a difference: their interval, and a p-value, the share of
resamples whose deviation from the mean difference reaches the difference found (paired bootstrap, Koehn 2004, by the
shift method of Riezler & Maxwell 2005; random halves for pooled scores). Beside it the paper's t-test with its stars
(* below 0.05, ** below 0.01): paired over stories where a story has a score of its own, those of one prompt averaged
first since they are not independent, else over ten folds. Of systems of several trainings
(`compare_seeds`) the t-test takes means over trainings; only the intervals and p of the resamples know their spread.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack

import numpy as np

from discodvt.evaluation.intervals import Resampler, interval, make_resampler, replicate
from discodvt.evaluation.metric import Direction, Floats, Metric, Unit, Weights
from discodvt.evaluation.metrics.repetition import LookBack
from discodvt.evaluation.metrics.word_tokens import Text
from discodvt.evaluation.scores import RESAMPLES, Mode, Score, ScoreSettings, metrics_over_seeds, read_systems, score
from discodvt.executors import Executor

FOLDS = 10
ROUNDING = 1e-12  # differences of scores closer than this are equal


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on one score: `difference` is a minus b; what cannot be said is None."""

    name: str
    a: Score
    b: Score
    difference: float
    low: float | None
    high: float | None
    p_bootstrap: float | None
    p_t_test: float | None
    t_test: str  # "story": paired over stories, those of one prompt averaged; "fold": over ten folds of prompts; "none"
    direction: Direction
    unit: Unit

    @property
    def stars(self) -> str:
        """The paper's marks of its t-test."""
        if self.p_t_test is None or self.p_t_test >= 0.05:
            return ""
        return "**" if self.p_t_test < 0.01 else "*"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"a": self.a.as_dict(), "b": self.b.as_dict(), "stars": self.stars}


def compare(
    a: Sequence[Text],
    b: Sequence[Text],
    references: Sequence[Text],
    *,
    finishes: tuple[Sequence[str], Sequence[str]] | None = None,
    **settings: Unpack[ScoreSettings],
) -> dict[str, Comparison]:
    """Compare two systems' stories to the same prompts, against the same references, score by score."""
    known = finishes if finishes is not None else (None, None)
    return compare_seeds([a], [b], references, finishes=([known[0]], [known[1]]), **settings)


def compare_seeds(
    a: Sequence[Sequence[Text]],
    b: Sequence[Sequence[Text]],
    references: Sequence[Text],
    *,
    finishes: tuple[Sequence[Sequence[str] | None], Sequence[Sequence[str] | None]],
    mode: Mode = "paper",
    prompts: Sequence[str] | None = None,
    look_back: LookBack = "paper",
    mauve_model: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    executor: Executor | None = None,
) -> dict[str, Comparison]:
    """The same for systems of several trainings."""
    settings: dict[str, Any] = {"mode": mode, "look_back": look_back, "mauve_model": mauve_model, "seed": seed}
    systems, reference = read_systems(
        [*a, *b], references, finishes=[*finishes[0], *finishes[1]], prompts=prompts, executor=executor
    )
    resampler = make_resampler(len(references), prompts, resamples=resamples, seed=seed)
    folds = fixed_folds(resampler, prompts)
    first, second = systems[: len(a)], systems[len(a) :]
    sides = (
        metrics_over_seeds(one, reference, alongside=[system.tokens for system in other], stream=stream, **settings)
        for stream, (one, other) in enumerate(((first, second), (second, first)))
    )
    families = zip(*sides, strict=True)
    return {each.name: each for ours, theirs in families for each in compare_metrics(ours, theirs, resampler, folds)}


def paired_t_test(differences: Floats) -> float:
    """Two-sided p of Student's paired t-test; differences all alike are certain: no difference, or no doubt of it."""
    from scipy.stats import ttest_1samp  # slow to import, and only comparisons need it

    if np.ptp(differences) <= ROUNDING:
        return 1.0 if abs(differences[0]) <= ROUNDING else 0.0
    return float(ttest_1samp(differences, 0.0).pvalue)


def compare_metrics(ours: Metric, theirs: Metric, resampler: Resampler, folds: Weights | None) -> list[Comparison]:
    """All scores of one family; those that rest on too little are not tested."""
    names = ours.names
    difference = ours.values - theirs.values
    low: Sequence[float | None] = [None] * len(names)
    high = p_bootstrap = p_t_test = low
    replicates_a, replicates_b = replicate(ours, resampler), replicate(theirs, resampler)
    if replicates_a is not None and replicates_b is not None:
        differences = replicates_a - replicates_b
        limits = (-1.0, 1.0) if ours.unit == "fraction" else (None, None)
        low, high = (
            end.clip(*limits).tolist() for end in interval(difference, differences, ours.resampling, resampler)
        )
        scale = 1.0 if ours.resampling == "bootstrap" else resampler.scale
        beyond = np.abs(scale * (differences - differences.mean(axis=0))) >= np.abs(difference)
        p_bootstrap = ((1 + beyond.sum(axis=0)) / (1 + len(differences))).tolist()
    t_test, pairs = _paired_scores(ours, theirs, resampler, folds)
    if len(pairs) > 1:
        p_t_test = [paired_t_test(column) for column in pairs.T]
    a, b = score(ours, resampler, replicates_a), score(theirs, resampler, replicates_b)
    columns = zip(names, difference.tolist(), low, high, p_bootstrap, p_t_test, strict=True)
    found = [
        Comparison(name, a[name], b[name], by, below, above, p, t_p, t_test, ours.direction, ours.unit)
        for name, by, below, above, p, t_p in columns
    ]
    few = ours.too_few.keys() | theirs.too_few.keys()
    untested: dict[str, Any] = {"p_bootstrap": None, "p_t_test": None, "t_test": "none"}
    return [replace(each, **untested) if each.name in few else each for each in found]


def _paired_scores(ours: Metric, theirs: Metric, resampler: Resampler, folds: Weights | None) -> tuple[str, Floats]:
    """Differences of the two systems over stories, those of one prompt averaged, or over folds, [pairs, k]."""
    if ours.per_story is not None and theirs.per_story is not None:
        sums = np.zeros((resampler.units, len(ours.names)))
        np.add.at(sums, resampler.unit, ours.per_story - theirs.per_story)
        return "story", sums / np.bincount(resampler.unit)[:, None]
    if folds is not None and ours.resampling != "none":
        return "fold", ours.under(folds) - theirs.under(folds)
    return "none", np.zeros((0, len(ours.names)))


def fixed_folds(resampler: Resampler, prompts: Sequence[str] | None) -> Weights | None:
    """Which stories each of the ten folds holds [folds, N]: prompts in turn, in the order of their hashes, or else
    stories as they come."""
    if resampler.units < FOLDS:
        return None
    turn = np.arange(resampler.units)
    if prompts is not None:
        hashes = [hashlib.sha256(prompt.encode()).digest() for prompt in dict.fromkeys(prompts)]
        turn[sorted(turn, key=hashes.__getitem__)] = np.arange(resampler.units)
    return np.asarray(turn[resampler.unit] % FOLDS == np.arange(FOLDS)[:, None], dtype=np.float32)
