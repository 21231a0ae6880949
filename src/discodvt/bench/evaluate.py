"""Bench of the metrics: arrays against NLTK's BLEU and plain-Python counting, intervals, growth, tokenising.

Times are CPU seconds, so that others on the machine count little. `plain_scores` is the plain way to compute the
paper's ten scores, and the oracle of the parity tests.
"""

import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from math import prod
from statistics import mean

from discodvt.bench.rows import BenchRow, interleave, ratio_row
from discodvt.corpus.words import tokenize
from discodvt.evaluation import evaluate

STORIES, WORDS = 1_000, 500
WORD_TYPES, PHRASE_TYPES = 20_000, 30_000


def bench_evaluate(*, rounds: int = 3, scale: float = 1.0) -> list[BenchRow]:
    """The rows; `scale` shrinks the number of stories."""
    count = max(round(STORIES * scale), 2)
    ours, theirs = _stories(4 * count, seed=1), _stories(4 * count, seed=2)
    few, some = ours[:count], theirs[:count]
    texts = [". ".join(" ".join(story[at : at + 20]) for at in range(0, WORDS, 20)) for story in few]
    works = [
        lambda: plain_scores(few, some),
        lambda: evaluate(few, some, resamples=0),
        lambda: evaluate(few, some),
        lambda: evaluate(ours, theirs, resamples=0),
        lambda: evaluate(ours, theirs),
        lambda: [tokenize(text) for text in texts],
    ]
    with _one_core():
        evaluate(few[:2], some[:2])  # warm up
        tokenize(texts[0])
        plain, scores, intervals, scores_4, intervals_4, tokenising = interleave(works, rounds, clock=time.process_time)
    words = count * WORDS / min(tokenising)
    return [
        ratio_row("NLTK and plain Python / all paper scores", plain, scores, at_least=10, note=f"{min(scores):.2f} s"),
        ratio_row(
            "with intervals / NLTK and plain Python", intervals, plain, at_most=1, note=f"{min(plain):.2f} s plain"
        ),
        ratio_row("4 times the stories, scores", scores_4, scores, at_most=5),
        ratio_row("4 times the stories, with intervals", intervals_4, intervals, at_most=5),
        ratio_row(
            "tokenising the stories / all paper scores", tokenising, scores, note=f"{words:,.0f} words a CPU second"
        ),
    ]


def plain_scores(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The paper's ten scores of token lists by NLTK's sentence BLEU, counters and loops."""
    forward, backward = _nltk_bleu(hypotheses, references), _nltk_bleu(references, hypotheses)
    jaccard = [_jaccard(hypotheses, references, order) for order in (1, 2, 3)]
    known = {token.lower() for text in references for token in text}
    lowered = [[token.lower() for token in text] for text in hypotheses]
    scores = {"B-1": forward[0], "B-2": forward[1], "rB-1": backward[0], "rB-2": backward[1]}
    scores |= {f"MSJ-{order}": prod(jaccard[:order]) ** (1 / order) for order in (2, 3)}
    scores |= {f"D-{order}": _distinct(lowered, order, known) for order in (4, 5)}
    return scores | {f"rep-{reach}": mean(_repeated(text, reach) for text in hypotheses) for reach in (8, 16)}


def _nltk_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> tuple[float, float]:
    from nltk.translate.bleu_score import sentence_bleu

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of every order without a match
        pairs = [
            sentence_bleu([theirs], ours, weights=[(1.0, 0.0), (0.5, 0.5)])
            for ours, theirs in zip(hypotheses, references, strict=True)
        ]
    return mean(float(one) for one, _ in pairs), mean(float(two) for _, two in pairs)


def _jaccard(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], order: int) -> float:
    ours, theirs = (
        {gram: count / len(texts) for gram, count in Counter(_grams(texts, order)).items()}
        for texts in (hypotheses, references)
    )
    grams = ours.keys() | theirs.keys()
    larger = sum(max(ours.get(gram, 0), theirs.get(gram, 0)) for gram in grams)
    return sum(min(ours.get(gram, 0), theirs.get(gram, 0)) for gram in grams) / larger if larger else 0.0


def _distinct(texts: Sequence[Sequence[str]], order: int, known: set[str]) -> float:
    counts = Counter(gram for gram in _grams(texts, order) if known.issuperset(gram))
    return len(counts) / counts.total() if counts else 0.0


def _grams(texts: Sequence[Sequence[str]], order: int) -> Iterator[tuple[str, ...]]:
    return (gram for text in texts for gram in zip(*(text[start:] for start in range(order)), strict=False))


def _repeated(text: Sequence[str], reach: int) -> float:
    return sum(token in text[max(0, at - reach) : at] for at, token in enumerate(text)) / len(text)


def _stories(count: int, *, seed: int) -> list[list[str]]:
    """Stories of invented words: phrases by Zipf's law, made of words by Zipf's law, so that n-grams recur."""
    fixed, rng = random.Random(0), random.Random(seed)
    words = [("W" if n % 7 == 0 else "w") + str(n) for n in range(WORD_TYPES)]
    common, weights = _zipf(WORD_TYPES), _zipf(PHRASE_TYPES)
    phrases = [fixed.choices(words, cum_weights=common, k=fixed.randint(1, 5)) for _ in range(PHRASE_TYPES)]
    drawn = (rng.choices(phrases, cum_weights=weights, k=WORDS) for _ in range(count))
    return [[word for phrase in story for word in phrase][:WORDS] for story in drawn]


def _zipf(size: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, size + 1)))


@contextmanager
def _one_core() -> Iterator[None]:
    """Keep this process on one core where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
