"""EDU spans in characters over subword positions."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline.toy_corpus import story
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from discodvt.checkpoints import open_tokenizer
from discodvt.corpus import ANNOTATED_SCHEMA, CORPUS_SCHEMA, write_rows
from discodvt.data.subwords import adding_a_space, as_input, bart_symbols, train_tokenizer
from discodvt.data.tokens import edu_boundaries, read_tokens
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer((str(story(number)["story"]) for number in range(60)), 320)


def test_whitespace_belongs_to_the_edu_before_it():
    #            0123456789
    # text:      "Hi, you. Go" in EDUs "Hi, " | "you. " | "Go"
    ends = np.array([2, 3, 7, 8, 11])  # "Hi" "," " you" "." " Go"
    assert edu_boundaries(ends, np.array([4, 9, 11])).tolist() == [0, 3, 5, 6]  # <s> Hi , | you . | Go


def test_edus_past_the_cut_are_empty():
    assert edu_boundaries(np.array([2, 3]), np.array([4, 9, 11])).tolist() == [0, 3, 3, 3]


BPE = train_tokenizer(["aa bb ab é “x. \n a"] * 3, 270).backend_tokenizer


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab é\n.“x", min_size=1, max_size=9), min_size=1, max_size=6))
def test_every_position_is_in_exactly_one_edu(pieces):
    """Whatever the text: boundaries rise from 0 to the number of positions, and each subword is where it ends."""
    text = "".join(pieces)
    ends = np.cumsum([len(piece) for piece in pieces])
    encoded = BPE.encode(as_input(text), add_special_tokens=False)
    token_ends = np.array([end - 1 for _, end in encoded.offsets], dtype=np.int64)
    boundaries = edu_boundaries(token_ends, ends)
    assert boundaries[0] == 0
    assert boundaries[-1] == len(encoded.ids) + 1
    assert (np.diff(boundaries) >= 0).all()
    for position, end in enumerate(token_ends, start=1):
        edu = int(np.searchsorted(boundaries, position, side="right")) - 1
        assert (ends[edu - 1] if edu else 0) <= max(end - 1, 0) < ends[edu]


def write(path, rows, schema=ANNOTATED_SCHEMA):
    write_rows(path, [{name: row[name] for name in schema.names} for row in rows], schema)
    return path


def test_tokens_of_a_story_and_its_edus(tokenizer, tmp_path):
    row = story(3)
    tokens = read_tokens(
        write(tmp_path / "s.parquet", [row]),
        tokenizer,
        symbols=bart_symbols(tokenizer),
        prompt_tokens=4,
        story_tokens=400,
        with_relations=True,
    )
    ids, boundaries = tokens.stories[0], tokens.edus[0]
    assert tokenizer.decode(ids[1:-1]) == as_input(row["story"])
    assert (ids[0], ids[-1]) == (tokenizer.bos_token_id, tokenizer.eos_token_id)
    for span, (start, end) in zip(row["edus"], pairwise(boundaries), strict=True):
        words = tokenizer.decode(ids[max(start, 1) : end])
        assert words.strip() == row["story"][span["start"] : span["end"]].strip()
    assert [LABELS[label] for label in tokens.relations[0]] == row["relations"]
    assert len(tokens.prompts[0]) == 6  # four subwords between <s> and </s>


def test_special_tokens_spelled_out_in_a_corpus_are_text(tokenizer, tmp_path):
    row = {"id": "1", "prompt": "A <s>fox</s>", "story": "It ran. <s>Gone</s> <pad> <mask> home."}
    path = write(tmp_path / "s.parquet", [row], CORPUS_SCHEMA)
    tokens = read_tokens(path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=64, story_tokens=128)
    for ids, text in ((tokens.stories[0], row["story"]), (tokens.prompts[0], row["prompt"])):
        assert not set(ids[1:-1].tolist()) & set(tokenizer.all_special_ids)
        assert tokenizer.decode(ids[1:-1]) == as_input(text)


def test_a_long_story_is_cut_without_a_false_end(tokenizer, tmp_path):
    row = story(3)
    path = write(tmp_path / "s.parquet", [row])
    tokens = read_tokens(
        path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=16, story_tokens=16, with_relations=True
    )
    assert tokens.story_lengths.tolist() == [16]  # decoder positions
    assert tokenizer.eos_token_id not in tokens.stories[0]
    kept = tokens.relations[0] >= 0
    assert not kept.all()
    assert tokens.pair_counts[0] == kept.sum()
    assert tokens.edus[0][-1] == 16  # of the last, label-only subword no input position exists


def test_a_corpus_without_annotation_is_refused_for_the_relation_loss(tokenizer, tmp_path):
    path = write(tmp_path / "s.parquet", [story(1)], CORPUS_SCHEMA)
    with pytest.raises(BadRequest, match="discodvt annotate"):
        read_tokens(
            path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=4, story_tokens=64, with_relations=True
        )
    assert len(read_tokens(path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=4, story_tokens=64)) == 1


@pytest.mark.parametrize("rows", [[], [story(1) | {"story": " \n"}]])
def test_an_empty_split_is_refused(tokenizer, tmp_path, rows):
    with pytest.raises(BadRequest, match="no story"):
        read_tokens(
            write(tmp_path / "s.parquet", rows),
            tokenizer,
            symbols=bart_symbols(tokenizer),
            prompt_tokens=4,
            story_tokens=64,
        )


@pytest.mark.parametrize("name", ["prompt", "story"])
def test_a_null_is_refused_and_its_row_named(tokenizer, tmp_path, name):
    loose = pa.schema([pa.field(name, pa.string()) for name in CORPUS_SCHEMA.names])
    path = write(tmp_path / "s.parquet", [story(1), story(2) | {name: None}], loose)
    with pytest.raises(BadRequest, match=f"row 1 has no {name}; prepare the corpus again without null values"):
        read_tokens(path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=4, story_tokens=64)


def test_reading_many_stories_leaves_no_pile_of_small_arrays(tokenizer, tmp_path):
    rows = [story(1) | {"id": str(number), "story": "Ann."} for number in range(8000)]
    path = write(tmp_path / "s.parquet", rows, CORPUS_SCHEMA)
    tracemalloc.start()
    try:
        read_tokens(path, tokenizer, symbols=bart_symbols(tokenizer), prompt_tokens=4, story_tokens=64)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 3_000_000  # an array for each story and column would be 4,500,000


def test_the_tokenizer_is_barts_kind_and_reproducible(tokenizer, tmp_path):
    assert [tokenizer.convert_tokens_to_ids(token) for token in ("<s>", "<pad>", "</s>", "<unk>")] == [0, 1, 2, 3]
    assert tokenizer.mask_token_id == len(tokenizer) - 1 < 320
    again = train_tokenizer((str(story(number)["story"]) for number in range(60)), 320)
    assert again.get_vocab() == tokenizer.get_vocab()
    tokenizer.save_pretrained(tmp_path / "a")
    open_tokenizer(tmp_path / "a").save_pretrained(tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert (tmp_path / "b" / path.name).read_bytes() == path.read_bytes()


def test_the_real_bart_vocabulary_opens(shared):
    tokenizer = open_tokenizer(shared / "tokenizer" / "bart")
    assert len(tokenizer) == 50265
    assert tokenizer(" Hello world")["input_ids"] == [0, 20920, 232, 2]


def test_a_tokenizer_saved_with_a_model_puts_the_space_before_a_prompt_by_itself(shared, tmp_path):
    plain = open_tokenizer(shared / "tokenizer" / "bart")
    expected = plain(as_input("Hello world"))["input_ids"]
    assert plain("Hello world")["input_ids"] != expected
    adding_a_space(plain).save_pretrained(tmp_path)
    bare = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in ("Hello world", as_input("Hello world")):
        assert AutoTokenizer.from_pretrained(tmp_path)(text)["input_ids"] == bare.encode(text).ids == expected
