"""The code dictionary on stories small enough to be read: segments, phrases, markers, neighbours, relations."""

import numpy as np
import pytest

from discodvt.corpus import Example
from discodvt.data.subwords import train_tokenizer
from discodvt.data.tokens import Ragged, Tokens
from discodvt.discourse.labels import LABELS
from discodvt.evaluation.codes.occurrences import Occurrences, cut_segments, find_phrases
from discodvt.evaluation.codes.study import describe_codes, relation_counts, segmented_stories

WORDS = "the old fox ran home because it rained and then he slept so well".split()


def ragged(rows: list[list[int]]) -> Ragged:
    return Ragged.of(np.array(row, dtype=np.int32) for row in rows)


@pytest.fixture(scope="module")
def tokenizer():
    """A BPE that knows every word of the toy stories whole."""
    return train_tokenizer([" ".join(WORDS)] * 50, 400)


def segments_of(tokenizer, texts: list[str], *, tokens_per_code: int = 8, story_tokens: int = 64):
    stories = [Example(f"s{number}", "", text) for number, text in enumerate(texts)]
    return cut_segments(tokenizer, stories, story_tokens=story_tokens, tokens_per_code=tokens_per_code)


def test_segments_tile_the_story_whatever_the_subwords(tokenizer):
    texts = ["the old fox — “ran” home\n\nbecause é it rained and then he slept so well", "fox"]
    segments = segments_of(tokenizer, texts)
    for row, text in enumerate(texts):
        count = -(-len(segments.ids[row]) // 8)
        assert "".join(segments.text(row, index) for index in range(count + 1)) == text
    assert (segments.text(0, -1), segments.text(1, 1)) == ("", "")  # before the first; nothing but the story's end


def test_blank_stories_are_left_out_and_long_ones_cut(tokenizer):
    segments = segments_of(tokenizer, ["  ", " ".join(WORDS)], story_tokens=4)
    assert [story.id for story in segments.stories] == ["s1"]
    assert segments.text(0, 0) == "the old fox ran"


def test_phrases_are_4_grams_a_code_repeats_inside_its_segments(tokenizer):
    half = " ".join(WORDS[:8])  # the old fox ran home because it rained
    segments = segments_of(tokenizer, [f"{half} {' '.join(WORDS[6:])}", half, half])
    plans = ragged([[0, 1], [0], [2]])  # the same words under code 0 twice, under code 2 once
    phrases = find_phrases(Occurrences.of(plans, 3), segments)
    found = dict(phrases.of(0, 10))
    assert found == {" ".join(WORDS[start : start + 4]): 2 for start in range(5)}  # none across the segment's end
    assert phrases.of(0, 2)[0][1] == 2
    assert len(phrases.of(0, 2)) == 2
    assert phrases.of(1, 10) == phrases.of(2, 10) == []


def test_markers_are_counted_once_and_only_in_repeated_phrases(tokenizer):
    segments = segments_of(
        tokenizer, ["the old fox ran home because it rained"] * 3 + ["the so and then he slept it well"]
    )
    phrases = find_phrases(Occurrences.of(ragged([[0], [0], [1], [0]]), 2), segments)
    assert phrases.markers[0].sum() == 2  # `because`, once in each story; the last story repeats nothing
    assert phrases.markers[1].sum() == 0


def test_a_segment_shorter_than_a_phrase_gives_the_one_that_begins_with_it(tokenizer):
    segments = segments_of(tokenizer, ["the old fox ran home"] * 2, tokens_per_code=2)
    phrases = find_phrases(Occurrences.of(ragged([[0, 1, 2], [0, 1, 2]]), 3), segments)
    assert (phrases.of(0, 5), phrases.of(1, 5)) == ([("the old fox ran", 2)], [])


def test_relations_belong_to_the_code_that_writes_the_second_edu():
    because, unknown = LABELS.index("because_arg1_arg2"), LABELS.index("unknown")
    tokens = Tokens(
        prompts=ragged([[0, 2], [0, 2]]),
        stories=ragged([[0, *range(10, 30), 2]] * 2),
        edus=ragged([[0, 5, 9, 21], [0, 8, 21]]),  # positions of `<s> y1 .. y20`
        relations=ragged([[unknown, because], [because]]),
    )
    found = relation_counts(Occurrences.of(ragged([[3, 4, 5], [6, 7, 8]]), 9), tokens, 8)
    assert np.argwhere(found).tolist() == [[4, because], [6, because]]  # y8 is the last subword of a first code, y9 not


def test_entries_tell_share_place_neighbours_and_examples(tokenizer):
    text = " ".join(WORDS[:8])
    segments = segments_of(tokenizer, [f"{text} {text} {text}"] * 4)
    occurrences = Occurrences.of(ragged([[2, 0, 1]] * 3 + [[2, 1, 1]]), 4)
    tokens = Tokens(*(ragged([[]] * 4) for _ in range(4)))
    embedding = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.0]])
    entries = describe_codes(occurrences, segments, tokens, embedding)
    assert [(entry["code"], entry["count"]) for entry in entries] == [(1, 5), (2, 4), (0, 3)]  # code 3 is never used
    first = entries[1]
    assert first["place"] == {"beginning": 1, "middle": 0, "end": 0, "mean": round(1 / 6, 4)}
    assert first["next"] == [{"code": 0, "share": 0.75, "lift": 2.0}, {"code": 1, "share": 0.25, "lift": 0.4}]
    assert first["previous"] == []
    assert first["markers"] == [{"marker": "because", "count": 4, "share": 1.0}]
    assert [near["code"] for near in entries[2]["nearest"]] == [1, 2]
    assert len(first["examples"]) == 3
    assert first["examples"][0] == {"id": "s0", "before": "", "text": text, "after": f" {text}"}


def test_examples_are_taken_where_a_code_has_text(tokenizer):
    """A plan's last code may stand for the story's end alone; it is no example."""
    segments = segments_of(tokenizer, [" ".join(WORDS[:8])] * 6)
    occurrences = Occurrences.of(ragged([[0, 0]] * 6), 1)
    (entry,) = describe_codes(occurrences, segments, Tokens(*(ragged([[]] * 6) for _ in range(4))), np.ones((1, 2)))
    assert [example["text"] for example in entry["examples"]] == [" ".join(WORDS[:8])] * 3
    occurrences = Occurrences.of(ragged([[0, 1]] * 6), 2)
    entries = describe_codes(occurrences, segments, Tokens(*(ragged([[]] * 6) for _ in range(4))), np.ones((2, 2)))
    assert [len(entry["examples"]) for entry in entries] == [3, 0]


def test_stories_are_told_as_codes_and_text(tokenizer):
    text = " ".join(WORDS)
    segments = segments_of(tokenizer, [text, text, text])
    occurrences = Occurrences.of(ragged([[0, 1], [2, 3], [0, 3]]), 4)
    told = segmented_stories(occurrences, segments, 2)
    assert [story["id"] for story in told] == ["s0", "s2"]
    assert [code for code, _ in told[1]["segments"]] == [0, 3]
    assert "".join(piece for _, piece in told[0]["segments"]) == text
    assert segmented_stories(occurrences, segments, 0) == []
