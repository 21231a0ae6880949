"""Titles made of a story's own words."""

import pytest

from discodvt.corpus.titles import make_title, wants_title

FOX = "A clever fox had a red hat. The fox lost his hat in the wood. The fox looked for the hat. An owl saw the fox."
TOM = "One day, Tom saw a kite. The kite was stuck. Then Tom asked Mia for help, and Tom got the kite."


def test_a_title_names_the_main_character_and_thing_and_nothing_else():
    words = {word.lower() for word in make_title(FOX).split()}
    assert "fox" in words or "hat" in words
    assert words <= {"the", "fox", "and", "hat", "red", "clever", "who", "lost", "had", "his", "a"}


def test_a_person_is_called_by_name():
    assert {"tom", "kite"} <= set(make_title(TOM).lower().replace("'s", "").split())


def test_the_deed_of_a_character_becomes_a_title():
    stories = (f"{FOX} It was day {number}." for number in range(20))
    assert "the fox who lost his hat" in {make_title(story).lower() for story in stories}


def test_a_story_always_gets_the_same_title():
    assert make_title(FOX) == make_title(FOX)
    assert {wants_title(f"{FOX} {number}") for number in range(20)} == {True, False}


def test_half_a_character_in_a_story_is_no_obstacle():
    assert make_title(f"{FOX} \ud83d") is not None
    assert wants_title("\ud83d") in (True, False)


@pytest.mark.parametrize("story", ["", "Go!", "🦊🎩", "The " * 50, "He was very happy and then he slept."])
def test_without_a_character_there_is_no_title(story):
    assert make_title(story) is None
