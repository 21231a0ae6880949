"""Words of a text and sentence BLEU: one definition for the metrics and for the choice of a checkpoint in training.

The paper's scripts call NLTK's `word_tokenize`, which is its sentence splitter (a download) followed by
`NLTKWordTokenizer` on each sentence. Here the sentences are our own, the words NLTK's.
"""

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discodvt.corpus.sentences import split_sentences


def tokenize(text: str) -> list[str]:
    """NLTK's word tokens of a text, sentence by sentence."""
    words = _word_tokenizer()
    return [token for start, end in split_sentences(text) for token in words(text[start:end])]


def sentence_bleu(
    matches: NDArray[np.float64], hypothesis: NDArray[np.int64], reference: NDArray[np.int64], *, order: int
) -> NDArray[np.float64]:
    """BLEU of each pair from its clipped matches [N, orders] and the two lengths in tokens [N].

    Unsmoothed (Papineni et al. 2002), with uniform weights up to `order`.
    """
    totals = np.maximum(hypothesis[:, None] - np.arange(order), 1)
    precision = np.where(matches[:, :order] > 0, matches[:, :order] / totals, sys.float_info.min)
    with np.errstate(divide="ignore", invalid="ignore"):
        brevity = np.where(hypothesis > reference, 1.0, np.exp(1 - reference / hypothesis))
    return np.where(matches[:, 0] > 0, brevity * np.exp(np.log(precision).mean(axis=1)), 0.0)


def bleu_1(text: str, reference: str) -> float:
    """BLEU-1 of one text."""
    ours, theirs = Counter(tokenize(text)), Counter(tokenize(reference))
    matches = np.array([[(ours & theirs).total()]], dtype=np.float64)
    return float(sentence_bleu(matches, np.array([ours.total()]), np.array([theirs.total()]), order=1)[0])


@cache
def _word_tokenizer() -> Callable[[str], list[str]]:
    from nltk.tokenize import NLTKWordTokenizer  # all of NLTK comes with it: only when a text is to be split

    tokenizer: Any = NLTKWordTokenizer()
    return lambda sentence: list(tokenizer.tokenize(sentence))
