"""Plots and tagged stories: texts that can be read back, tags that leave no trace, distances between entity orders."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

import discodvt
from discodvt.baselines.plots import (
    TAGS,
    Part,
    Plot,
    add_tags,
    entity_distance,
    refuse_tags,
    renumber,
    strip_tags,
    tag_story,
)
from discodvt.data.subwords import as_input
from discodvt.errors import BadRequest

TEXT = (
    "<A0> the dog <V> chased <A1> <ent0> <event> <A0> <ent0>'s cat <V> fell <sent>"  # two events
    " <sent> <V> go <A2> with <ent1> <sent>"
)
WORDS = st.text("abc <>'\n", max_size=40).filter(lambda text: not any(tag in text for tag in TAGS))


def test_a_plot_is_read_back_from_its_text_and_from_what_a_decoder_makes_of_it() -> None:
    plot = Plot.read(TEXT)
    assert plot.text == TEXT
    assert plot.sentences[0][1] == (Part("A0", "<ent0>'s cat"), Part("V", "fell"))
    assert plot.sentences[1] == ()
    assert Plot.read(TEXT.replace(" <", "<").removesuffix("<sent>")) == plot
    assert Plot.read("").sentences == ()
    assert Plot.read("lost words <V> go <A1>  <event> more").text == "<V> go <sent>"


@given(WORDS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 31))), st.lists(st.integers(0, 40)))
def test_tag_then_strip_is_the_identity(story: str, mentions: list[tuple[int, int]], ends: list[int]) -> None:
    assert strip_tags(tag_story(story, mentions, ends)) == story


def test_tags_leave_the_subwords_of_a_story_as_they_are(tmp_path: Path) -> None:
    folder = Path(discodvt.__file__).parent / "assets" / "storyteller"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    story = "Tom saw\n\nTom. “Tom  and Ann!” said\nAnn"
    starts = [at for at in range(len(story)) if story.startswith(("Tom", "Ann"), at)]
    tagged = tag_story(story, [(at, number % 3) for number, at in enumerate(starts)], [13, len(story)])
    plain = tokenizer(as_input(story), add_special_tokens=False)["input_ids"]
    assert add_tags(tokenizer) == len(TAGS) == 38
    assert add_tags(tokenizer) == 0
    tokenizer.save_pretrained(tmp_path)
    for opened in (tokenizer, PreTrainedTokenizerFast.from_pretrained(tmp_path)):
        ids = opened(as_input(tagged), add_special_tokens=False)["input_ids"]
        marks = set(opened.convert_tokens_to_ids(list(TAGS)))
        assert [number for number in ids if number not in marks] == plain
        assert strip_tags(opened.decode(ids)).strip() == story
        words = opened(as_input(TEXT), add_special_tokens=False)["input_ids"]
        assert sum(number in marks for number in words) == TEXT.count("<")
        assert Plot.read(opened.decode(words)).text == TEXT


def test_a_text_that_holds_a_tag_is_refused() -> None:
    with pytest.raises(BadRequest, match="story 3: holds <ent7>"):
        refuse_tags("He wrote <ent7>.", where="story 3")
    refuse_tags("He wrote <ent32> and <b>.", where="story 3")


def test_entities_are_renumbered_by_first_mention() -> None:
    assert renumber("<ent4> saw <ent0>; <ent4> fell") == "<ent0> saw <ent1>; <ent0> fell"
    assert renumber(TEXT) == TEXT


def test_the_distance_of_a_story_from_a_plot_is_that_of_their_entities() -> None:
    assert entity_distance(
        "<A0> <ent0> <V> saw <A1> <ent1>", "<ent0> Tom saw<ent2> her and<ent1> Ann"
    ) == pytest.approx(1 / 3)
    assert entity_distance("", "nobody") == 0
