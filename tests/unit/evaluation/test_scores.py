"""The door `evaluate`: what it takes, what it refuses, what every score carries."""

import sys

import pytest

from discodvt import __version__
from discodvt.bench.evaluate import bench_evaluate
from discodvt.corpus.words import tokenize
from discodvt.errors import BadRequest
from discodvt.evaluation import evaluate

STORIES = ["The fox ran home. He was late, wasn't he?", "The owl laughed; then it slept."]
REFERENCES = ["The fox was late. He ran.", "An owl laughed and slept."]


def test_texts_are_cut_into_nltk_s_words_sentence_by_sentence():
    assert tokenize("He left. She can't stay.") == ["He", "left", ".", "She", "ca", "n't", "stay", "."]
    assert tokenize("  ") == []


def test_texts_and_their_tokens_score_alike():
    given = evaluate([tokenize(text) for text in STORIES], [tokenize(text) for text in REFERENCES], resamples=50)
    for name, score in evaluate(STORIES, REFERENCES, resamples=50).items():
        assert (score.value, score.low, score.high) == (given[name].value, given[name].low, given[name].high)
        assert ("tok:nltk" in score.signature, "tok:given" in given[name].signature) == (True, True)


def test_every_score_carries_what_a_table_needs():
    scores = evaluate(STORIES, REFERENCES, resamples=50, seed=3)
    for name, score in scores.items():
        assert score.name == name
        assert 0 <= score.low <= score.high <= 1
        assert score.n == 2
        assert score.direction == ("lower" if name.startswith("rep") else "higher")
        method = "subsample-half-without-replacement" if name[0] in "MD" else "percentile-bootstrap"
        for part in (f"interval:{method}", "draws:50", "seed:3", "n:2", f"discodvt:{__version__}"):
            assert part in score.signature.split("|")
    assert "look-back:8" in scores["rep-8"].signature
    assert "look-back:7" in evaluate(STORIES, REFERENCES, look_back="code", resamples=0)["rep-8"].signature


def test_modern_mode_adds_lengths_and_finish_rates_and_never_imports_mauve_unasked():
    scores = evaluate(STORIES, REFERENCES, mode="modern", finishes=["end", "length"], resamples=20)
    assert scores["length"].value == (13 + 8) / 2
    assert scores["finish"].value == 0.5
    assert scores["length"].unit == "tokens"
    assert "mauve" not in sys.modules


def test_mauve_that_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "mauve", None)
    with pytest.raises(BadRequest, match=r"pip install 'discodvt\[mauve\]'"):
        evaluate(STORIES, REFERENCES, mode="modern", mauve_model="gpt2", resamples=0)


@pytest.mark.parametrize(
    ("stories", "references", "message"),
    [
        (STORIES, REFERENCES[:1], "2 stories, 1 references"),
        ([], [], "empty"),
        (["", "b"], REFERENCES, "text 1 of 2 is empty"),
        ([["a"], []], [["a"], ["b"]], "text 2 of 2 is empty"),
        (STORIES, ["a", "  "], "references: text 2 of 2 is empty"),
        (STORIES[0], STORIES[0], "expected a list"),
        ([["a"], "b"], REFERENCES, "mixed"),
        ([["a"], ["b"]], REFERENCES, "same kind"),
    ],
)
def test_wrong_input_is_refused_in_one_clear_line(stories, references, message):
    with pytest.raises(BadRequest, match=message) as refused:
        evaluate(stories, references)
    assert "\n" not in str(refused.value)


def test_an_unknown_mode_is_refused():
    with pytest.raises(BadRequest, match="expected paper or modern"):
        evaluate(STORIES, REFERENCES, mode="old")


def test_bench_gives_every_promised_row():
    rows = bench_evaluate(rounds=1, scale=0.004)
    assert [row.promise for row in rows] == ["at least 10", "at most 1", "at most 5", "at most 5", "reported"]
    assert all(row.ratio > 0 for row in rows)
