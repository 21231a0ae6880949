"""Grammar of the patterns, on the shipped parser: what is a connective and which one divides."""

import pytest

from discodvt.discourse import Annotator

CONNECTIVES = [
    ("She was not damaged although it took over a day to pull her free.", ["although"]),
    ("He sat down and he ate the cake.", ["and"]),
    ("Tom and Lily ate bread and butter.", []),
    ("The red and shiny ball was old.", []),
    ("She was so happy that she cried.", []),
    ("They closed the door so that the cat could not leave.", []),
    ("He looked as if he had seen a ghost.", []),
    ("She worked as a teacher.", []),
    ("After dinner, they went home.", []),
    ("Because of the rain, they stayed inside.", []),
    ("He is still in the garden.", []),
    ("After she left, the dog barked.", ["after"]),
    ("They sang as they walked home.", ["as"]),
    ("He ran as fast as he could.", []),
    ("She ate as much as she wanted.", []),
    ("Before he could speak, the bear was gone.", ["before"]),
    ("She was hungry, so she ate an apple.", ["so"]),
    ("He opened the box, then he closed it again.", ["then"]),
    ("If you are good, then you can have a cake.", []),
]


@pytest.mark.parametrize(("sentence", "markers"), CONNECTIVES)
def test_markers_of_a_sentence(annotator: Annotator, sentence: str, markers: list[str]) -> None:
    assert [mention.marker for mention in annotator.annotate(sentence).mentions] == markers


def test_the_first_sentence_has_nothing_before_it(annotator: Annotator) -> None:
    annotation = annotator.annotate("Then he went home.")
    assert annotation.mentions == []
    assert annotation.relations == []


def test_the_most_even_division_wins(annotator: Annotator) -> None:
    text = "He sat and he slept because the long walk over the high mountain had made him very tired."
    annotation = annotator.annotate(text)
    assert len(annotation.edus) == 2
    assert annotation.relations == ["because_arg1_arg2"]
    assert text[slice(*annotation.edus[1])].startswith("because")


def test_the_marker_belongs_to_arg2(annotator: Annotator) -> None:
    text = "Although the fox was tired, he walked on."
    annotation = annotator.annotate(text)
    assert [text[start:end] for start, end in annotation.edus] == ["Although the fox was tired, ", "he walked on."]
    assert annotation.relations == ["although_arg2_arg1"]
