"""The metrics against what defines them: NLTK, sacrebleu, the authors' example, plain loops."""

import random
import warnings
from collections import Counter

import numpy as np
import pytest
from nltk.translate.bleu_score import sentence_bleu as nltk_bleu
from sacrebleu.metrics.bleu import BLEU

from discodvt.bench.evaluate import plain_scores
from discodvt.evaluation import evaluate
from discodvt.evaluation.metrics import ngrams
from discodvt.evaluation.metrics.bleu import bleu
from discodvt.evaluation.metrics.distinct import distinct, length_corrected_distinct, rarefied
from discodvt.evaluation.metrics.jaccard import ms_jaccard
from discodvt.evaluation.metrics.ngrams import count_ngrams
from discodvt.evaluation.metrics.repetition import repetition
from discodvt.evaluation.metrics.word_tokens import intern

REFERENCES = (
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
)
HYPOTHESES = (
    "It is a guide to action which ensures that the military always obeys the commands of the party",
    "he read the book because he was interested in world history",
)


def random_texts(count: int, *, seed: int, longest: int = 40, words: int = 30) -> list[list[str]]:
    """Token lists of any length from none on; some words differ only in case."""
    rng = random.Random(seed)
    vocabulary = [f"w{n}" for n in range(words)] + [f"W{n}" for n in range(words // 2)]
    return [rng.choices(vocabulary, k=rng.randrange(longest + 1)) for _ in range(count)]


def test_sentence_bleu_is_nltk_s_on_a_thousand_pairs():
    ours, theirs = random_texts(1000, seed=1), random_texts(1000, seed=2)
    ours[:4], theirs[:4] = [[], ["a"], ["a"], ["a", "b"]], [["a"], [], ["a"], ["b", "a"]]
    hypotheses, references = intern(ours, theirs)
    found = bleu(hypotheses, references, count_ngrams([hypotheses, references], (1, 2))).per_story
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            [nltk_bleu([b], a, w) for a, b in ((h, r), (r, h)) for w in ((1.0,), (0.5, 0.5))]
            for h, r in zip(ours, theirs, strict=True)
        ]
    assert any(0 < value < 1e-100 for row in expected for value in row), "NLTK's tiny scores are not among the cases"
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    tiny = np.array(expected) < 1e-100
    np.testing.assert_allclose(found[tiny], np.array(expected)[tiny], rtol=1e-9)


def test_ms_jaccard_of_its_authors_example():
    sides = intern([text.split() for text in HYPOTHESES], [text.split() for text in REFERENCES])
    two, three = ms_jaccard(count_ngrams(sides, (1, 2, 3)), texts=(2, 3))
    assert (round(two, 6), round(three, 6)) == (0.228589, 0.169962)


@pytest.mark.parametrize("words", [5, 40, 3000])
def test_all_ten_scores_are_those_of_plain_loops(words):
    ours = [text or ["only"] for text in random_texts(60, seed=3, words=words)]
    theirs = [text or ["only"] for text in random_texts(60, seed=4, words=words)]
    found, expected = evaluate(ours, theirs, resamples=0), plain_scores(ours, theirs)
    assert list(found) == ["B-1", "B-2", "rB-1", "rB-2", "MSJ-2", "MSJ-3", "D-4", "D-5", "rep-8", "rep-16"]
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=1e-12), name


@pytest.mark.parametrize("bits", [63, 45])  # with less room the places do not fit beside the ranks either
def test_long_n_grams_that_do_not_fit_64_bits_are_counted_exactly(monkeypatch, bits):
    monkeypatch.setattr(ngrams, "BITS", bits)
    text = [word for n in range(40_000) for word in (f"w{n}", "a", "b", "c", "d")]  # n-grams that differ in one word
    text += text[100:200] + text[1000:1200]
    (tokens,) = intern([text])
    for order, parts in count_ngrams([tokens], (4, 5)).items():
        expected = Counter(zip(*(text[start:] for start in range(order)), strict=False))
        assert len(parts) > 1
        assert sorted(count for part in parts for count in part.per_gram(part.count)) == sorted(expected.values())


def test_distinct_counts_only_what_the_references_know_in_lower_case():
    stories = ["the cat Sat on the mat the cat sat on the mat zebra the cat sat on".split()]
    tokens, references = intern(stories, ["THE CAT SAT ON THE MAT".split()])
    four = [
        "the cat sat on",
        "cat sat on the",
        "sat on the mat",
        "on the mat the",
        "the mat the cat",
        "mat the cat sat",
    ]
    total = 9 + 1  # of the first twelve tokens, and after the zebra
    assert distinct(tokens, references).values[0] == pytest.approx(len(four) / total)


def test_repetition_looks_back_l_tokens_or_l_minus_one_as_the_script():
    (tokens,) = intern([["a", *"bcdefgh", "a", *"ijklmno", "a"], ["x", "x", "y"]])
    first, second = 1 / 17 * 0, 1 / 3
    assert repetition(tokens, look_back="code").values[0] == pytest.approx((first + second) / 2)
    assert repetition(tokens).values[0] == pytest.approx((2 / 17 + second) / 2)
    assert repetition(tokens).values[1] == pytest.approx((2 / 17 + second) / 2)


def test_modern_bleu_is_sacrebleu_s():
    ours, theirs = list(HYPOTHESES), list(REFERENCES[:2])
    found = evaluate(ours, theirs, mode="modern", resamples=20)
    metric = BLEU()
    assert found["BLEU"].value == pytest.approx(metric.corpus_score(ours, [theirs]).score / 100, abs=1e-12)
    assert str(metric.get_signature()) in found["BLEU"].signature
    assert found["rBLEU"].value == pytest.approx(BLEU().corpus_score(theirs, [ours]).score / 100, abs=1e-12)
    given = evaluate([text.split() for text in ours], [text.split() for text in theirs], mode="modern", resamples=0)
    untouched = BLEU(tokenize="none", force=True).corpus_score(ours, [theirs])
    assert given["BLEU"].value == pytest.approx(untouched.score / 100, abs=1e-12)


def test_rarefied_distinct_is_the_mean_over_samples_and_ignores_length():
    rng = random.Random(6)
    pool = rng.choices(range(8), k=24)
    counts = np.array([pool.count(each) for each in set(pool)], dtype=float)
    samples = [len(set(rng.sample(pool, 6))) for _ in range(20_000)]
    assert rarefied(counts, np.array(24.0), np.array(6.0)).sum() == pytest.approx(np.mean(samples), abs=0.03)
    assert rarefied(np.array([20.0]), np.array(24.0), np.array(6.0)) == 1  # too few others to miss it
    words = [f"w{n}" for n in range(12)]
    short, long = ([rng.choices(words, k=k) for _ in range(40)] for k in (100, 400))
    one, two = intern(short, long)
    alike = [length_corrected_distinct(a, alongside=[b]).values[0] for a, b in ((one, two), (two, one))]
    plain = [distinct(a, one).values[0] for a in (one, two)]
    assert abs(alike[0] - alike[1]) < 0.01
    assert plain[0] - plain[1] > 0.1


def test_a_half_of_the_stories_is_rarefied_to_the_whole_sample_and_a_fold_to_its_share_of_it():
    """As plain sums: a half has text enough for all k n-grams, a tenth for a fifth of them."""
    stories = random_texts(40, seed=7, words=6)
    (tokens,) = intern(stories)
    measure = length_corrected_distinct(tokens, alongside=[])
    assert measure.samples is not None
    for held, share in ((20, 1.0), (4, 0.2)):
        counts = Counter(
            gram
            for story in stories[:held]
            for gram in zip(*([word.lower() for word in story[start:]] for start in range(4)), strict=False)
        )
        drawn = int(share * measure.samples[0])
        chances = rarefied(np.array([*counts.values()], dtype=float), np.array(counts.total() * 1.0), np.array(drawn))
        weights = (np.arange(40) < held).astype(np.float32)[None]
        assert measure.under(weights)[0, 0] == pytest.approx(chances.sum() / drawn, abs=1e-6)
