"""German by hand-made trees: the worked example of docs/languages.md."""

import re
from pathlib import Path

import pytest
from golden.german_examples import EXAMPLES, NO_RELATION
from golden.paper_examples import Example
from golden.test_paper_examples import agrees, read_trees

from discodvt.discourse import LABELS
from discodvt.discourse.annotation import annotate_sentences
from discodvt.discourse.labels import MARKERS
from discodvt.discourse.languages import GERMAN, LANGUAGES
from discodvt.discourse.trees import UD2, Sentence

PAGE = Path(__file__).parents[2] / "docs" / "languages.md"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.text)
def test_correct_trees_give_the_relation_and_both_arguments(example: Example) -> None:
    sentences = read_trees(example, scheme=UD2, language=GERMAN)
    annotation = annotate_sentences(example.text, sentences, UD2, GERMAN)
    assert agrees(example, annotation), annotation


@pytest.mark.parametrize(("text", "trees"), NO_RELATION, ids=lambda value: value if isinstance(value, str) else "")
def test_words_of_the_list_that_connect_nothing(text: str, trees: tuple[str, ...]) -> None:
    before = Sentence(0, 1, None)
    after = read_trees(Example("", "", "", "", "X " + text, trees), scheme=UD2, language=GERMAN)
    annotation = annotate_sentences("X " + text, [before, *after], UD2, GERMAN)
    assert annotation.mentions == []
    assert annotation.relations == ["unknown"]


def test_quotes_close_with_the_words_they_close() -> None:
    text = "„Komm mit.“ Er lief fort."
    sentences = [Sentence(0, 10, None), Sentence(10, 25, None)]  # a parser that cuts before the closing quote
    annotation = annotate_sentences(text, sentences, UD2, GERMAN)
    assert [text[start:end] for start, end in annotation.edus] == ["„Komm mit.“ ", "Er lief fort."]


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=list(LANGUAGES))
def test_every_language_has_words_for_all_ten_relations(language: object) -> None:
    found = {marker.relation for marker in language.markers.values()}  # type: ignore[attr-defined]
    assert found == set(MARKERS)
    assert {f"{relation}_arg1_arg2" for relation in found} < set(LABELS)


def test_the_page_shows_the_file_as_it_is() -> None:
    source = (PAGE.parents[1] / "src/discodvt/discourse/languages/german.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    shown = [line for block in blocks for line in block.splitlines() if line.strip() and "..." not in line]
    assert len(shown) > 20
    assert [line for line in shown if line not in source.splitlines()] == []
