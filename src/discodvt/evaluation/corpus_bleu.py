"""Corpus BLEU by sacrebleu (Post 2018), forward and reversed, with sacrebleu's own signature.

Texts go in raw and are tokenised by sacrebleu (13a); token lists are joined by spaces and left alone (`tok:none`).
Each story's matches are taken once; a draw sums them and sacrebleu turns the sums into a score. Fractions, not percent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from discodvt.evaluation.arrays import Floats, Ints, Weights
from discodvt.evaluation.measure import Direction, Resampling, Unit
from discodvt.evaluation.tokens import Text, as_line


@dataclass(frozen=True, slots=True)
class CorpusBleu:
    """BLEU and rBLEU of stories paired with references."""

    matches: Ints  # [N, orders]
    hypothesis: Ints  # lengths in sacrebleu's tokens, [N]
    reference: Ints
    signature: str
    names: tuple[str, ...] = ("BLEU", "rBLEU")
    direction: Direction = "higher"
    unit: Unit = "fraction"
    resampling: Resampling = "bootstrap"
    per_story: None = None

    @property
    def definitions(self) -> tuple[str, ...]:
        return f"sacrebleu|{self.signature}", f"sacrebleu-reversed|{self.signature}"

    @property
    def values(self) -> Floats:
        return self.under(np.ones((1, len(self.matches)), dtype=np.float32)).ravel()

    def under(self, weights: Weights) -> Floats:
        draws = weights.astype(np.int64)
        ours, theirs = draws @ _sums(self.hypothesis), draws @ _sums(self.reference)  # [draws, 1 + orders]
        pairs = zip(draws @ self.matches, ours, theirs, strict=True)
        return np.array([[_score(match, a, b), _score(match, b, a)] for match, a, b in pairs])


def corpus_bleu(hypotheses: Sequence[Text], references: Sequence[Text]) -> CorpusBleu:
    """Let sacrebleu count each story against its reference."""
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
        signature=str(metric.get_signature()),
    )


def _sums(lengths: Ints) -> Ints:
    """Each text's length and its number of n-grams of order 1 to 4."""
    orders = range(BLEU().max_ngram_order)
    return np.stack([lengths, *(np.maximum(lengths - order, 0) for order in orders)], axis=1)


def _score(matches: Ints, hypothesis: Ints, reference: Ints) -> float:
    """sacrebleu's corpus score from sums over stories, smoothed as its default is."""
    score = BLEU.compute_bleu(
        matches.tolist(), hypothesis[1:].tolist(), int(hypothesis[0]), int(reference[0]), smooth_method="exp"
    )
    return float(score.score) / 100
