"""From a classifier's predictions to scores: accuracy by marker, category and overall; relation shares; their distance.

Macro-accuracy is the mean over the markers of a category, however rare each of them is; overall, over all markers
(section 4.6). Entropy and Kullback-Leibler divergence KL(human || model) are in bits over the four categories (appendix
A.2.2). Both are estimated from counts, with a bias that changes with the amount of text, so their intervals come from
random halves; shares and accuracies are bootstrapped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discodvt.discourse.labels import CATEGORIES, MARKERS
from discodvt.evaluation.comparison import Comparison, compare_metrics, fixed_folds
from discodvt.evaluation.discourse.marker_pairs import PairedStory
from discodvt.evaluation.intervals import make_resampler, replicate
from discodvt.evaluation.matching import prompts_of
from discodvt.evaluation.metric import Flags, Floats, Ints, Metric, PooledCounts, over_seeds, too_few
from discodvt.evaluation.scores import Score, score

UNUSED = 0.5  # pairs: a category people use and the model never does would make the divergence infinite
# [markers, categories]: which marker belongs to which category
MEMBERSHIP: Floats = np.array([[marker in members for members in CATEGORIES.values()] for marker in MARKERS], float)


@dataclass(frozen=True, slots=True)
class MarkerCounts:
    """Marker pairs of each story, all of them and those classified rightly: [N, markers] each."""

    total: Floats
    right: Floats
    prompts: list[str] | None  # of each story, where all have one

    @property
    def known(self) -> Flags:
        """Which markers the stories have at all."""
        return np.asarray(self.total.sum(axis=0) > 0)


def count_markers(stories: Sequence[PairedStory], predicted: Ints) -> MarkerCounts:
    """Count by story; `predicted` has a marker for each pair of all stories, in their order."""
    owner = np.repeat(np.arange(len(stories)), [len(story.pairs) for story in stories])
    marker = np.array([MARKERS.index(pair.marker) for story in stories for pair in story.pairs], dtype=np.int64)
    total, right = np.zeros((2, len(stories), len(MARKERS)))
    np.add.at(total, (owner, marker), 1)
    np.add.at(right, (owner, marker), predicted == marker)
    return MarkerCounts(total, right, prompts_of([story.record for story in stories]))


def score_marker_counts(
    ours: Sequence[MarkerCounts], human: MarkerCounts, *, resamples: int, seed: int
) -> dict[str, Score]:
    """All scores of a system's stories, by name; `ours` has one for each training of the system."""
    resampler = make_resampler(len(ours[0].total), ours[0].prompts, resamples=resamples, seed=seed)
    scores: dict[str, Score] = {}
    for metric in _families(ours, human, shared_markers(ours)):
        scores |= score(metric, resampler, replicate(metric, resampler))
    return scores


def compare_marker_counts(
    a: Sequence[MarkerCounts], b: Sequence[MarkerCounts], human: MarkerCounts, *, resamples: int, seed: int
) -> dict[str, Comparison]:
    """Two systems on the same prompts, story by story; accuracies over the markers both of them use."""
    resampler = make_resampler(len(a[0].total), a[0].prompts, resamples=resamples, seed=seed)
    folds = fixed_folds(resampler, a[0].prompts)
    shared = shared_markers([*a, *b])
    families = zip(_families(a, human, shared), _families(b, human, shared, stream=1), strict=True)
    return {each.name: each for ours, theirs in families for each in compare_metrics(ours, theirs, resampler, folds)}


def shared_markers(trainings: Sequence[MarkerCounts]) -> Flags:
    """The markers that the stories of every training have."""
    return np.asarray(np.all([training.known for training in trainings], axis=0))


def _families(trainings: Sequence[MarkerCounts], human: MarkerCounts, among: Flags, *, stream: int = 0) -> list[Metric]:
    each = [
        (
            accuracy_scores(ours.right, ours.total, among=among),
            share_scores(ours.total),
            entropy_score(ours.total),
            divergence_score(ours.total, human.total.sum(axis=0)),
        )
        for ours in trainings
    ]
    return [over_seeds(list(members), stream) for members in zip(*each, strict=True)]


def accuracy_scores(right: Floats, total: Floats, *, among: Flags | None = None) -> PooledCounts:
    """Scores from the pairs classified rightly and all pairs of each story, [N, markers] each.

    Markers that no story has are left out; `among` [markers] leaves out more, for systems that are to be compared.
    """
    known = total.sum(axis=0) > 0 if among is None else among
    groups = _groups(known)
    pairs = total.sum(axis=0).astype(int)
    overall = right.sum(axis=0) / np.maximum(pairs, 1)

    def score(sums: Floats) -> Floats:
        sampled_right, sampled_total = np.split(sums, 2, axis=1)
        # A resample without a pair of some marker takes the accuracy of all stories for it.
        shares = sampled_right / np.maximum(sampled_total, 1)  # [resamples, markers]
        accuracy = np.where(sampled_total > 0, shares, overall)
        # Without groups (systems that share no marker) there are no scores.
        means = [accuracy[:, places].mean(axis=1) for places in groups.values()]
        return np.array(means).reshape(len(groups), len(sums)).T

    return PooledCounts(
        names=tuple(groups),
        definitions=tuple(
            f"macro-accuracy:{'+'.join(MARKERS[place] for place in places)}|pairs:{pairs[places].sum()}"
            for places in groups.values()
        ),
        direction="higher",
        counts=np.concatenate([right, total], axis=1),
        score=score,
        too_few=too_few({name: pairs[places].min() for name, places in groups.items()}, "pairs"),
    )


def _groups(known: Flags) -> dict[str, list[int]]:
    """Which markers each score is the mean of: all, those of a category, one."""
    places = {marker: place for place, marker in enumerate(MARKERS) if known[place]}
    groups = {"accuracy": list(places.values())}
    for category, markers in CATEGORIES.items():
        groups[f"accuracy-{category}"] = [places[marker] for marker in markers if marker in places]
    groups |= {f"accuracy-{marker}": [place] for marker, place in places.items()}
    return {name: members for name, members in groups.items() if members}


def fractions(counts: Floats) -> Floats:
    """Counts [..., k] as shares of their sum."""
    return np.asarray(counts / np.maximum(counts.sum(axis=-1, keepdims=True), 1))


def entropy_bits(shares: Floats) -> Floats:
    """Entropy in bits of distributions [..., k]."""
    return np.asarray(-(shares * np.log2(np.where(shares > 0, shares, 1))).sum(axis=-1))


def kl_bits(human: Floats, model: Floats) -> Floats:
    """KL(human || model) in bits of distributions [..., k]; the model has no zero where people have none."""
    ratio = np.where(human > 0, human, 1) / np.where(human > 0, model, 1)
    return np.asarray((human * np.log2(ratio)).sum(axis=-1))


def share_scores(counts: Floats) -> PooledCounts:
    """The share of every category and of every marker among the marker pairs, from counts [N, markers]."""
    named = (*CATEGORIES, *MARKERS)

    def score(sums: Floats) -> Floats:
        markers = fractions(sums)
        return np.concatenate([markers @ MEMBERSHIP, markers], axis=-1)

    return PooledCounts(
        names=tuple(f"share-{name}" for name in named),
        definitions=tuple(f"relation-share:{name}|of:marker-pairs" for name in named),
        direction="none",
        counts=counts,
        score=score,
    )


def entropy_score(counts: Floats) -> PooledCounts:
    """Entropy of the category shares; more is better, as in the paper."""
    return PooledCounts(
        names=("entropy",),
        definitions=("relation-entropy:bits|over:categories",),
        direction="higher",
        counts=counts,
        score=lambda sums: entropy_bits(fractions(sums @ MEMBERSHIP))[:, None],
        unit="bits",
        resampling="subsample",
        too_few=too_few({"entropy": counts.sum()}, "pairs"),
    )


def divergence_score(counts: Floats, human: Floats) -> PooledCounts:
    """KL(human || model) of the category shares; the human counts [markers] are taken as given, not resampled."""
    target = fractions(human @ MEMBERSHIP)

    def score(sums: Floats) -> Floats:
        found = sums @ MEMBERSHIP
        # Nothing is added where people have no pair either: the same counts must diverge by 0.
        return kl_bits(target, fractions(np.where((found == 0) & (target > 0), UNUSED, found)))[:, None]

    return PooledCounts(
        names=("KL",),
        definitions=(f"relation-kl:human-model|bits|over:categories|unused:{UNUSED}-pairs|human:fixed",),
        direction="lower",
        counts=counts,
        score=score,
        unit="bits",
        resampling="subsample",
        too_few=too_few({"KL": counts.sum()}, "pairs"),
    )
