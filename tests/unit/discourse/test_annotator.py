"""Any text is cut into EDUs that tile it, with one relation fewer, the same alone or in any batch."""

import gc
import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discodvt.discourse import LABELS, Annotation, Annotator
from discodvt.discourse.annotation import mend_sentences
from discodvt.discourse.annotator import pieces
from discodvt.discourse.languages import ENGLISH
from discodvt.discourse.trees import UD2, Sentence, Tree

WORDS = st.sampled_from(
    "the fox ran home and then because he was tired , . ! ? \n \r\n \t \u00a0 \u2028 “ ” 🦊 café although so also "
    "still as before after she said “I know” (and laughed) ...".split(" ")
)
TEXTS = st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=60).map(" ".join))
UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def check(text: str, annotation: Annotation) -> None:
    assert "".join(text[start:end] for start, end in annotation.edus) == text or not text.strip()
    assert all(start < end for start, end in annotation.edus)
    assert len(annotation.relations) == max(len(annotation.edus) - 1, 0)
    assert set(annotation.relations) <= set(LABELS)
    for mention in annotation.mentions:
        assert text[mention.start : mention.end].lower() == mention.marker
        for start, end in (mention.arg1, mention.arg2):
            assert 0 <= start < end <= len(text)


@UNHURRIED
@given(text=TEXTS)
def test_edus_tile_any_text(annotator: Annotator, text: str) -> None:
    check(text, annotator.annotate(text))


@UNHURRIED
@given(texts=st.lists(TEXTS, max_size=6))
def test_single_equals_batched(annotator: Annotator, texts: list[str]) -> None:
    assert list(annotator.annotate_many(texts)) == [annotator.annotate(text) for text in texts]


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t", "\u2003"])
def test_a_blank_text_has_no_edus(annotator: Annotator, text: str) -> None:
    assert annotator.annotate(text) == Annotation([], [], [])


def test_whitespace_belongs_to_the_edu_before(annotator: Annotator) -> None:
    text = "  He sat down.\r\n\r\nThen he slept. \n"
    annotation = annotator.annotate(text)
    assert [text[start:end] for start, end in annotation.edus] == ["  He sat down.\r\n\r\n", "Then he slept. \n"]
    assert annotation.relations == ["then_arg1_arg2"]
    assert annotation.mentions[0].kind == "inter"
    assert text[slice(*annotation.mentions[0].arg1)] == "He sat down."


@pytest.mark.parametrize(
    ("text", "label"),
    [("He ran home, and then he slept.", "then_arg1_arg2"), ("He was tired, and so he slept.", "so_arg1_arg2")],
)
def test_of_two_markers_at_one_cut_the_rarer_category_names_the_relation(
    annotator: Annotator, text: str, label: str
) -> None:
    annotation = annotator.annotate(text)
    assert [mention.marker for mention in annotation.mentions] == ["and", label.partition("_")[0]]
    assert annotation.relations == [label]


def test_a_closing_quote_stays_with_what_it_closes(annotator: Annotator) -> None:
    text = '"I found it this morning." After that, she gave it back. "Thank you!" he said.'
    edus = [text[start:end] for start, end in annotator.annotate(text).edus]
    assert edus[0] == '"I found it this morning." '
    assert edus[2].startswith('"Thank')


def test_lone_surrogates_keep_their_place(annotator: Annotator) -> None:
    text = "He ran \ud83e home because he was late."
    check(text, annotator.annotate(text))


@pytest.mark.parametrize("unit", ["and then he ran ", "a", "🦊", "\n", "("])
def test_a_huge_text_without_a_full_stop_is_done(annotator: Annotator, unit: str) -> None:
    text = unit * (8_000 // len(unit))
    check(text, annotator.annotate(text))


class WatchedParser:
    """Every eighth word ends a sentence; notes how much it is given at a time, and how many trees are alive then."""

    name = "watched"
    scheme = UD2
    language = ENGLISH

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.trees: list[int] = []

    def parse(self, pieces: Sequence[str]) -> Iterator[list[Sentence]]:
        self.sizes.append(sum(map(len, pieces)))
        self.trees.append(sum(type(thing) is Tree for thing in gc.get_objects()))
        for piece in pieces:
            spans = [match.span() for match in re.finditer(r"\S+", piece)]
            yield [self._sentence(piece, spans[at : at + 8]) for at in range(0, len(spans), 8)]

    def _sentence(self, piece: str, spans: list[tuple[int, int]]) -> Sentence:
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        words, count = [piece[start:end] for start, end in spans], len(spans)
        return Sentence(starts[0], ends[-1], Tree(words, ["NN"] * count, ["dep"] * count, [-1] * count, starts, ends))


@pytest.fixture
def watched() -> Iterator[WatchedParser]:
    """Of all that tests have left alive it looks at nothing."""
    gc.freeze()
    yield WatchedParser()
    gc.unfreeze()


@pytest.mark.parametrize("space", [" ", " \t"])
def test_of_a_huge_line_little_is_in_memory_at_a_time(watched: WatchedParser, space: str) -> None:
    text = space.join(["fox"] * 50_000)
    annotation = Annotator(watched).annotate(text)
    check(text, annotation)
    assert len(annotation.edus) > 6_000
    assert max(watched.sizes) <= 20_000
    assert len(watched.sizes) < 20  # and yet no piece by itself
    assert max(watched.trees) < 1_000


def test_short_texts_share_a_batch_and_wait_for_no_more_than_one(watched: WatchedParser) -> None:
    taken = 0

    def texts() -> Iterator[str]:
        nonlocal taken
        for number in range(1_000):
            taken += 1
            yield "fox " * (number % 50)

    annotations = Annotator(watched).annotate_many(texts())
    next(annotations)
    assert taken < 300
    assert len(list(annotations)) == 999
    assert 5 <= len(watched.sizes) <= 6
    assert max(watched.sizes) <= 20_000


def test_two_streams_of_one_annotator_may_alternate(annotator: Annotator) -> None:
    texts = ["The fox ran because he was late.", "", "Then he slept."]
    pairs = zip(annotator.annotate_many(texts), annotator.annotate_many(reversed(texts)), strict=True)
    assert [list(pair) for pair in pairs] == [
        [annotator.annotate(one), annotator.annotate(other)] for one, other in zip(texts, reversed(texts), strict=True)
    ]


@given(text=st.text(alphabet="ab .\n\r\t\u2029", max_size=400), size=st.integers(2, 50))
def test_pieces_hold_every_word_where_it_stands(text: str, size: int) -> None:
    cut = list(pieces(text, size=size))
    for piece in cut:
        assert len(piece.text) == len(piece.place) <= size
        assert not re.search(r"^\s|\s$|\s\s|[^\S ]", piece.text)
        assert all(
            text[at] == letter or (letter == " " and text[at].isspace())
            for letter, at in zip(piece.text, piece.place, strict=True)
        )
    kept = [at for piece in cut for at in piece.place]
    assert kept == sorted(set(kept))
    assert set(kept) >= {at for at, letter in enumerate(text) if not letter.isspace()}


@pytest.mark.parametrize("layout", ["\n", "\r\n", "  ", "\n\n", " \r\n \r\n", "\t", "\u2003"])
def test_layout_does_not_change_what_is_found(annotator: Annotator, layout: str) -> None:
    plain = annotator.annotate("The fox was tired. Then he slept because it was late.")
    text = "The fox was tired. Then he slept because it was late.".replace(". ", f".{layout}")
    assert annotator.annotate(text).relations == plain.relations == ["then_arg1_arg2", "because_arg1_arg2"]


def test_closing_quotes_a_parser_put_next_belong_to_the_words_before() -> None:
    text = '("Go.") He left. "Stay."'
    cut = [(0, 5), (5, 16), (17, 23), (23, 24)]  # as parsers do: the closing marks begin a sentence, or are one
    mended = list(mend_sentences(text, [Sentence(start, end, None) for start, end in cut]))
    assert [text[sentence.start : sentence.end] for sentence in mended] == ['("Go.")', "He left.", '"Stay."']


@pytest.mark.parametrize(
    ("text", "cut", "expected"),
    [
        ('He left. " Then it rained.', [(0, 8), (9, 10), (11, 26)], ['He left. "', "Then it rained."]),
        ("... He left.", [(0, 3), (4, 12)], ["... He left."]),
        ("!! ??", [(0, 2), (3, 5)], ["!!"]),
    ],
)
def test_a_sentence_without_a_letter_or_digit_goes_with_its_neighbour(text, cut, expected) -> None:
    mended = list(mend_sentences(text, [Sentence(start, end, None) for start, end in cut]))
    assert [text[sentence.start : sentence.end] for sentence in mended] == expected


@pytest.mark.parametrize(
    "text", ['He went home. " It was late. "', "* * * The fox slept. * * *", "(- And then he slept.)"]
)
def test_every_edu_has_a_letter_or_digit(annotator: Annotator, text: str) -> None:
    edus = annotator.annotate(text).edus
    assert all(any(map(str.isalnum, text[start:end])) for start, end in edus)
    assert (edus[0][0], edus[-1][1]) == (0, len(text))
