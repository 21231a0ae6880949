"""Marker pairs: the right two texts, the marker gone, and nothing left that gives it away."""

import json

import pytest

from discodvt.discourse import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.marker_pairs import Pair, annotated_pairs, pair_file, pairs_in, read_paired, swapped


def pairs(*parts: str, relations: list[str]) -> list[Pair]:
    story, edus = "", []
    for part in parts:
        edus.append((len(story), len(story) + len(part)))
        story += part
    return list(pairs_in(story, edus, relations))


@pytest.mark.parametrize(
    ("first", "second", "label", "expected"),
    [
        ("She ran home ", "because it rained. ", "because_arg1_arg2", ("she ran home", "it rained", "because")),
        ("Although it rained, ", "they played. ", "although_arg2_arg1", ("they played", "it rained", "although")),
        ("He lost. ", "And so, he left. ", "so_arg1_arg2", ("he lost", "he left", "so")),
        ("He sat, but ", "still smiled.", "still_arg1_arg2", ("he sat", "smiled", "still")),
        (
            "She nodded. ",
            "He also agreed to also go. ",
            "also_arg1_arg2",
            ("she nodded", "he agreed to also go", "also"),
        ),
        ('He fell. "', '"Then he rose," ', "then_arg1_arg2", ("he fell", "he rose", "then")),
        ("They sang ", "AS the sun set!\n", "as_arg1_arg2", ("they sang", "the sun set!", "as")),
    ],
)
def test_the_marker_and_what_joins_the_clauses_is_taken_out(first, second, label, expected):
    assert pairs(first, second, relations=[label]) == [Pair(*expected)]


def test_neighbours_without_a_marker_or_without_words_are_no_pairs():
    assert pairs("A dog. ", "A cat. ", "So! ", relations=["unknown", "so_arg1_arg2"]) != []
    assert pairs("A dog. ", "So. ", relations=["so_arg1_arg2"]) == []
    assert pairs("A dog. ", "A cat. ", relations=["unknown"]) == []


def test_stories_are_annotated_where_they_are_not_yet(tmp_path, annotator):
    file = tmp_path / "stories.jsonl"
    story = "She ran home because it rained. Although he was late, they ate together."
    file.write_text(json.dumps({"id": "1", "prompt": "p", "story": story}))
    (found,) = read_paired(file, split="test", parser=annotator.parser)
    assert found.pairs == [
        Pair("she ran home", "it rained", "because"),
        Pair("they ate together", "he was late", "although"),
    ]


def test_files_of_pairs_are_read_as_tsv_and_jsonl(tmp_path):
    tsv, jsonl = tmp_path / "dissent.tsv", tmp_path / "dissent.jsonl"
    tsv.write_text("He fell .\tIt was dark .\tbecause\nHe ran\the was late\tAs\n")
    jsonl.write_text(json.dumps({"s1": "He fell .", "s2": "It was dark .", "marker": "because"}) + "\n")
    assert list(pair_file(tsv)) == [Pair("he fell", "it was dark", "because"), Pair("he ran", "he was late", "as")]
    assert list(pair_file(jsonl)) == [Pair("he fell", "it was dark", "because")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "x\ty\tso\nx\ty\tbut\n", r"a.tsv:2: marker 'but' is none of although, so"),
        ("a.tsv", "x\ty\n", "a.tsv:1: found 2 columns"),
        ("a.jsonl", '{"s1": "x", "s2": "y", "marker": "so"}\n{"s1": "x"\n', "a.jsonl:2: not JSON"),
        ("a.jsonl", '{"s1": "x", "s2": 3, "marker": "so"}\n', "a.jsonl:1: expected an object"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadRequest, match=message):
        list(pair_file(tmp_path / name))


def test_other_markers_can_be_left_out(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ty\tso\nx\ty\tbut\n")
    assert [pair.marker for pair in pair_file(tmp_path / "a.tsv", drop_unknown=True)] == ["so"]


def test_a_corpus_without_annotations_is_refused(tmp_path):
    from pipeline.toy_corpus import write_corpus

    corpus = write_corpus(tmp_path / "corpus", train=2, valid=2, annotated=False)
    with pytest.raises(BadRequest, match="no annotations; run `discodvt annotate`"):
        annotated_pairs(corpus / "train.parquet")


@pytest.mark.parametrize("how", ["any", "same-marker"])
def test_swapping_gives_every_pair_the_second_argument_of_another(how):
    given = [Pair(f"a{n}", f"b{n}", MARKERS[n % 3]) for n in range(12)]
    torn = swapped(given, how, seed=1)
    assert [(pair.arg1, pair.marker) for pair in torn] == [(pair.arg1, pair.marker) for pair in given]
    assert sorted(pair.arg2 for pair in torn) == sorted(pair.arg2 for pair in given)
    donors = {pair.arg2: pair.marker for pair in given}
    assert all(pair.arg2 != own.arg2 for pair, own in zip(torn, given, strict=True))
    assert all(donors[pair.arg2] == pair.marker for pair in torn) == (how == "same-marker")
