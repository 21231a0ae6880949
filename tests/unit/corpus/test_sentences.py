"""Sentence spans: hand-written cases, the tiling property, and linear time on a very long line."""

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discodvt.corpus import cut_to_words, first_sentence, split_sentences

CASES = [
    ("The fox ran. The dog slept.", ["The fox ran.", "The dog slept."]),
    ("Stop! Who goes there? Nobody.", ["Stop!", "Who goes there?", "Nobody."]),
    ("Mr. and Mrs. Hale met Dr. Reed on St. John's Road. It rained.", 2),
    ("He read books, e.g. Emma, i.e. novels. Then he slept.", 2),
    ("J. R. R. Tolkien wrote it. Harry S. Truman read it.", 2),
    ("They met at 5 p.m. on Monday. It was 3.14 miles away.", 2),
    ("They met at 5 p.m. Nobody spoke.", 2),
    ("See No. 5 and vol. 2 of it. No. I will not.", ["See No. 5 and vol. 2 of it.", "No.", "I will not."]),
    (
        "Well... he did not know. And then... Nothing came.",
        ["Well... he did not know.", "And then...", "Nothing came."],
    ),
    ("I thought… I mean, perhaps. Yes.", ["I thought… I mean, perhaps.", "Yes."]),
    ("He waited . . . and waited . Then he left .", ["He waited . . . and waited .", "Then he left ."]),
    ('"Come here!" he said. "I won\'t." She ran.', ['"Come here!" he said.', '"I won\'t."', "She ran."]),
    ("“Is it late?” asked Tom. “Yes.” He yawned.", ["“Is it late?” asked Tom.", "“Yes.”", "He yawned."]),
    ("(It was cold.) He shivered.", ["(It was cold.)", "He shivered."]),
    ("He said , `` Go . '' She went .", ["He said , `` Go . ''", "She went ."]),
    ("A title\n\nThe story begins", ["A title", "The story begins"]),
    ("The end.\n\nThe story begins", ["The end.", "The story begins"]),
    ("A title\r\n \r\nThe story begins", ["A title", "The story begins"]),
    ("one line\nand its second", ["one line\nand its second"]),
    ("i went home. then i slept.", ["i went home.", "then i slept."]),
    ("1. Take an egg. 2. Break it.", 2),
    ("It was I. He denied it.", ["It was I.", "He denied it."]),
    ("Oh! what a day it was.", 1),
    ("What?! No!!! Yes.", ["What?!", "No!!!", "Yes."]),
    ("Visit example.com today. It works.", 2),
    ("It was late. 1984 was a good year.", 2),
    ("彼は走った。彼女は眠った。", ["彼は走った。", "彼女は眠った。"]),
    ("  Leading space. End.  ", ["Leading space.", "End."]),
    ("no stop at all", ["no stop at all"]),
    ("...", ["..."]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[case[0][:24] for case in CASES])
def test_hand_written_cases(text: str, expected: list[str] | int) -> None:
    sentences = [text[start:end].strip() for start, end in split_sentences(text)]
    assert (sentences if isinstance(expected, list) else len(sentences)) == expected


PIECES = [
    "a",
    "word",
    "I",
    "Mr",
    "B",
    "1",
    ".",
    ". ",
    "!",
    "?",
    "…",
    ".\n\n",
    "\n\n",
    "\r\n",
    "\n",
    " ",
    '"',
    "'",
    "。",
    "(",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=100))
@example("a.\n\nB.")
@example(" \n\n ")
@example("\n\n\nA.\n\n\n")
def test_spans_tile_the_text(text: str) -> None:
    spans = split_sentences(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans)
    assert all(text[start:end].strip() for start, end in spans) or not text.strip()
    assert all(not text[start].isspace() for start, _ in spans[1:])


@pytest.mark.parametrize(
    "unit", ["word ", "Mr. ", "!", ". ", "\n", '."', "\n x", "1. ", "… i ", "a. '' ", "(", "......x", "W. ", "A b. "]
)
def test_a_long_line_takes_linear_time(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit)) + ".x"
        began = time.process_time()
        assert split_sentences(text)[-1][1] == len(text)
        return time.process_time() - began

    small = min(seconds(10_000) for _ in range(2))
    assert seconds(160_000) < 16 * 6 * small + 0.05


def test_five_megabytes_in_one_line() -> None:
    text = "The fox met Mr. Crow in the deep dark wood, where nobody else had ever been before. " * 63_000
    assert len(text) > 5_000_000
    assert len(split_sentences(text)) == 63_000


def test_first_sentence_and_the_rest() -> None:
    assert first_sentence("  Once upon a time. There was a fox. \n") == ("Once upon a time.", "There was a fox.")
    assert first_sentence("Only one.") == ("Only one.", "")
    assert first_sentence(" ") == ("", "")


def test_cut_keeps_whole_sentences() -> None:
    text = "One two. Three four five. Six."
    assert [cut_to_words(text, words) for words in (1, 2, 4, 5, 6, 9)] == [
        "",
        "One two.",
        "One two.",
        "One two. Three four five.",
        text,
        text,
    ]
