"""BLEU: the paper's sentence BLEU and reverse BLEU, and sacrebleu's corpus BLEU both ways.

Sentence BLEU-n is unsmoothed (Papineni et al. 2002) with uniform weights up to n, averaged over stories. It equals
NLTK's `sentence_bleu` without smoothing, also in its corner cases: no matching word gives 0; a matching word but no
match of a higher order (or a hypothesis shorter than it) takes that precision as the smallest normal float, so the
score is about 1e-154 and not 0. Reverse BLEU (Shi et al. 2018) swaps hypothesis and reference; the clipped matches are
the same both ways, so they are counted once.

Corpus BLEU is sacrebleu's (Post 2018), with its signature. Texts go in raw and are tokenised by sacrebleu (13a); token
lists are joined by spaces and left alone (`tok:none`). Each story's matches are taken once; a resample sums them and
sacrebleu turns the sums into a score. Fractions, not percent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discodvt.corpus.words import sentence_bleu
from discodvt.evaluation.metric import Floats, Ints, Metric, StoryMean, Weights
from discodvt.evaluation.metrics.ngrams import NgramCounts, Parts
from discodvt.evaluation.metrics.word_tokens import Text, WordTokens, as_line

ORDERS = (1, 2)
CORPUS_ORDER = 4  # sacrebleu's


def bleu(hypotheses: WordTokens, references: WordTokens, grams: Mapping[int, Parts]) -> StoryMean:
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


def _matches(grams: NgramCounts) -> Floats:
    """For each pair, how many of the hypothesis' n-grams the reference has, each counted as often as both have it."""
    same_gram = np.ones(len(grams.text), dtype=bool)
    same_gram[grams.bounds[:-1]] = False  # as the entry before
    both = np.flatnonzero(same_gram[1:] & (grams.text[1:] == grams.text[:-1]))
    clipped = np.minimum(grams.count[both], grams.count[both + 1])
    return np.bincount(grams.text[both], clipped, grams.texts).astype(np.float64)


@dataclass(frozen=True, kw_only=True)
class CorpusBleu(Metric):
    """BLEU and rBLEU of stories paired with references."""

    matches: Ints  # [N, orders]
    hypothesis: Ints  # lengths in sacrebleu's tokens, [N]
    reference: Ints

    @property
    def values(self) -> Floats:
        return self.under(np.ones((1, len(self.matches)), dtype=np.float32)).ravel()

    def under(self, weights: Weights) -> Floats:
        taken = weights.astype(np.int64)
        ours, theirs = taken @ _sums(self.hypothesis), taken @ _sums(self.reference)  # [resamples, 1 + orders]
        pairs = zip(taken @ self.matches, ours, theirs, strict=True)
        return np.array([[_score(match, a, b), _score(match, b, a)] for match, a, b in pairs])


def corpus_bleu(hypotheses: Sequence[Text], references: Sequence[Text]) -> CorpusBleu:
    """Let sacrebleu count each story against its reference."""
    from sacrebleu.metrics.bleu import BLEU  # only modern mode needs it

    given = not isinstance(hypotheses[0], str)
    metric = BLEU(tokenize="none", force=True) if given else BLEU()
    counted = [
        metric.corpus_score([as_line(ours)], [[as_line(theirs)]])
        for ours, theirs in zip(hypotheses, references, strict=True)
    ]
    return CorpusBleu(
        matches=np.array([score.counts for score in counted], dtype=np.int64),
        hypothesis=np.array([score.sys_len for score in counted], dtype=np.int64),
        reference=np.array([score.ref_len for score in counted], dtype=np.int64),
        names=("BLEU", "rBLEU"),
        definitions=tuple(f"{name}|{metric.get_signature()}" for name in ("sacrebleu", "sacrebleu-reversed")),
    )


def _sums(lengths: Ints) -> Ints:
    """Each text's length and its number of n-grams of order 1 to 4."""
    return np.stack([lengths, *(np.maximum(lengths - order, 0) for order in range(CORPUS_ORDER))], axis=1)


def _score(matches: Ints, hypothesis: Ints, reference: Ints) -> float:
    """sacrebleu's corpus score from sums over stories, smoothed as its default is."""
    from sacrebleu.metrics.bleu import BLEU

    score = BLEU.compute_bleu(
        matches.tolist(), hypothesis[1:].tolist(), int(hypothesis[0]), int(reference[0]), smooth_method="exp"
    )
    return float(score.score) / 100
