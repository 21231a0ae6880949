"""What is marked as repeated is what rep-l counts, and the story stays as it was."""

import pytest

from discodvt.corpus.words import tokenize
from discodvt.evaluation import evaluate
from discodvt.evaluation.metrics.word_tokens import token_spans
from discodvt.report.example_section import marked_pieces, repeats

STORY = """The fox saw the fox. "The fox," he said, "saw the old owl & the old owl saw <me>."

Then he ran, and ran, and ran."""


def test_the_marked_tokens_are_those_of_rep_l() -> None:
    found = repeats(STORY)
    tokens = len(tokenize(STORY))
    score = evaluate([STORY], [STORY], resamples=0)
    assert sum(each.tokens for each in found) / tokens == pytest.approx(score["rep-16"].value)
    assert sum(each.tokens for each in found if each.distance <= 8) / tokens == pytest.approx(score["rep-8"].value)


def test_the_authors_look_back_is_one_token_shorter() -> None:
    story = "fox one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen fox"
    assert [(each.start, each.distance) for each in repeats(story)] == [(story.rindex("fox"), 16)]
    assert repeats(story, look_back="code") == []


def test_tokens_repeated_together_are_one_phrase() -> None:
    phrases = [STORY[each.start : each.end] for each in repeats(STORY) if each.tokens > 2]
    assert "the old owl" in phrases


def test_the_story_is_unchanged_but_for_marks() -> None:
    pieces = list(marked_pieces(STORY))
    assert "".join(piece.text for piece in pieces) == STORY
    assert len([piece for piece in pieces if piece.kind]) == len(repeats(STORY))


def test_spans_are_where_tokens_stand() -> None:
    text = "\"He can't,\" she said. ``It's'' 3.5%... \"end\""
    found = [text[start:end] for start, end in token_spans(text)]
    assert [token if token not in ("``", "''") else '"' for token in tokenize(text)] == [
        '"' if token in ("``", "''") else token for token in found
    ]
