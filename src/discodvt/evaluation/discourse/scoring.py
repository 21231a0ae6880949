"""From predictions to scores: marker pairs tallied by story, then accuracies, shares, entropy, divergence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from discodvt.discourse.labels import MARKERS
from discodvt.evaluation.arrays import Flags, Floats, Ints
from discodvt.evaluation.comparison import Comparison, compare_measures, fixed_folds
from discodvt.evaluation.discourse.accuracy import accuracy_scores, too_few_to_test
from discodvt.evaluation.discourse.pooled import Pooled
from discodvt.evaluation.discourse.shares import divergence_score, entropy_score, share_scores
from discodvt.evaluation.discourse.sources import PairedStory
from discodvt.evaluation.intervals import plan_draws, replicate
from discodvt.evaluation.scores import Score, score


@dataclass(frozen=True, slots=True)
class Tally:
    """Marker pairs of each story, all of them and those classified rightly: [N, markers] each."""

    total: Floats
    right: Floats
    prompts: list[str] | None  # of each story, where all have one

    @property
    def known(self) -> Flags:
        """Which markers the stories have at all."""
        return np.asarray(self.total.sum(axis=0) > 0)


def tally(stories: Sequence[PairedStory], predicted: Ints) -> Tally:
    """Count by story; `predicted` has a marker for each pair of all stories, in their order."""
    owner = np.repeat(np.arange(len(stories)), [len(story.pairs) for story in stories])
    marker = np.array([MARKERS.index(pair.marker) for story in stories for pair in story.pairs], dtype=np.int64)
    total, right = np.zeros((2, len(stories), len(MARKERS)))
    np.add.at(total, (owner, marker), 1)
    np.add.at(right, (owner, marker), predicted == marker)
    return Tally(total, right, prompts_of(stories))


def prompts_of(stories: Sequence[PairedStory]) -> list[str] | None:
    """The prompt of each story, where all have one."""
    prompts = [story.told.prompt for story in stories if story.told.prompt is not None]
    return prompts if len(prompts) == len(stories) else None


def score_tally(ours: Tally, human: Tally, *, resamples: int, seed: int) -> dict[str, Score]:
    """All scores of a system's stories, by name."""
    draws = plan_draws(len(ours.total), ours.prompts, resamples=resamples, seed=seed)
    scores: dict[str, Score] = {}
    for measure in _families(ours, human, ours.known):
        scores |= score(measure, draws, replicate(measure, draws))
    return scores


def compare_tallies(a: Tally, b: Tally, human: Tally, *, resamples: int, seed: int) -> dict[str, Comparison]:
    """Two systems on the same prompts, story by story; accuracies over the markers both of them use.

    Accuracies that rest on too few pairs are shown without a test.
    """
    draws = plan_draws(len(a.total), a.prompts, resamples=resamples, seed=seed)
    folds = fixed_folds(draws, a.prompts)
    shared = np.asarray(a.known & b.known)
    families = zip(_families(a, human, shared), _families(b, human, shared), strict=True)
    found = {each.name: each for ours, theirs in families for each in compare_measures(ours, theirs, draws, folds)}
    for name in too_few_to_test(a.total, among=shared) | too_few_to_test(b.total, among=shared):
        found[name] = replace(found[name], p_bootstrap=None, p_t_test=None, t_test="none")
    return found


def _families(ours: Tally, human: Tally, among: Flags) -> list[Pooled]:
    return [
        accuracy_scores(ours.right, ours.total, among=among),
        share_scores(ours.total),
        entropy_score(ours.total),
        divergence_score(ours.total, human.total.sum(axis=0)),
    ]
