"""Tokens on disk: what a corpus in memory would be, story by story, whoever made the shards."""

import os

import numpy as np
import pytest
from pipeline.toy_corpus import write_corpus
from safetensors.numpy import load_file, save_file

from discodvt.corpus import ANNOTATED_SCHEMA, read_examples, read_rows, split_files, write_rows
from discodvt.data import token_shards
from discodvt.data.batches import collate
from discodvt.data.mapped_arrays import create_arrays, map_arrays
from discodvt.data.subwords import bart_symbols, train_tokenizer
from discodvt.data.token_shards import check_tokens, open_tokens, token_config, tokenize_corpus
from discodvt.data.tokens import TokenSettings, read_tokens
from discodvt.errors import BadRequest
from discodvt.executors import Place

LIMITS = {"train": None, "valid": None}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """40 stories; the third and the ninth are blank."""
    directory = write_corpus(tmp_path_factory.mktemp("corpus"), train=40, valid=9)
    rows = list(read_rows(directory / "train.parquet", ANNOTATED_SCHEMA))
    for blank in (2, 8):
        rows[blank] |= {"story": " ", "edus": [], "relations": []}
    write_rows(directory / "train.parquet", rows, ANNOTATED_SCHEMA)
    return directory


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer((row.story for row in read_examples(corpus / "train.parquet")), 300)


def settings_for(tokenizer, **more) -> TokenSettings:
    return TokenSettings(bart_symbols(tokenizer), prompt_tokens=4, story_tokens=40, with_relations=True, **more)


@pytest.fixture
def make(corpus, tokenizer, monkeypatch):
    """Make tokens in shards of seven rows."""
    monkeypatch.setattr(token_shards, "ROWS_PER_SHARD", 7)

    def make(out, **more):
        more = {"settings": settings_for(tokenizer), "limits": LIMITS} | more
        tokenize_corpus(split_files(corpus), out, tokenizer, **more)
        return out

    return make


def content(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_stored_tokens_are_those_in_memory(make, corpus, tokenizer, tmp_path):
    out = make(tmp_path / "tokens")
    assert len(list((out / "train").glob("0*.safetensors"))) == 6
    for split, path in split_files(corpus).items():
        held = read_tokens(path, tokenizer, **settings_for(tokenizer)._asdict())
        stored = open_tokens(out, split, with_relations=True)
        assert len(stored) == len(held)
        for name in ("prompts", "stories", "edus", "relations"):
            ours, theirs = getattr(stored, name), getattr(held, name)
            assert all(np.array_equal(ours[row], theirs[row]) for row in range(len(held))), name
            assert np.array_equal(ours.lengths, theirs.lengths)
        assert np.array_equal(stored.story_lengths, held.story_lengths)
        assert np.array_equal(stored.pair_counts, held.pair_counts)
        assert (stored.cut_prompts, stored.cut_stories) == (held.cut_prompts, held.cut_stories)
        rows = np.array([0, len(held) - 1, 5])  # of several shards
        for ours, theirs in zip(
            collate(stored, rows, pad=1).values(), collate(held, rows, pad=1).values(), strict=True
        ):
            assert ours.equal(theirs)


def test_relations_that_nobody_asks_for_are_left_out(make, tmp_path):
    stored = open_tokens(make(tmp_path / "tokens"), "valid", with_relations=False)
    assert stored.pair_counts.sum() == 0
    assert collate(stored, np.array([3, 1]), pad=1)["pairs"].shape == (0, 2)


@pytest.mark.usefixtures("warm_workers")
def test_worker_processes_leave_the_same_bytes(make, tmp_path):
    assert content(make(tmp_path / "here")) == content(make(tmp_path / "there", place=Place(workers=2)))


def test_a_run_that_was_stopped_makes_only_what_is_missing(make, tmp_path, monkeypatch):
    whole, done = content(make(tmp_path / "whole")), []
    real = token_shards.tokenize_rows

    def dies(*arguments, **more):
        done.append(more["skip"])
        if len(done) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(token_shards, "tokenize_rows", dies)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "manifest.json").exists()
    done[:] = [0] * 10
    assert content(make(tmp_path / "stopped")) == whole
    assert len(done) == 10 + 8 - 3


@pytest.mark.parametrize("harm", ["cut", "gone", "empty"])
def test_a_shard_that_is_not_whole_is_refused(make, tmp_path, harm):
    out = make(tmp_path / "tokens")
    shard = out / "train" / "000003.safetensors"
    if harm == "gone":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[: 0 if harm == "empty" else -1])
    said = "is missing" if harm == "gone" else "cut short"
    with pytest.raises(BadRequest, match=f"000003.safetensors: {said}.*run `discodvt tokenize` with --overwrite again"):
        open_tokens(out, "train", with_relations=True)


def test_tokens_for_another_recipe_or_corpus_are_refused(make, corpus, tokenizer, tmp_path):
    out, files = make(tmp_path / "tokens"), split_files(corpus)
    asked = token_config(tokenizer, settings_for(tokenizer), LIMITS)
    check_tokens(out, asked, files)
    check_tokens(out, asked | {"relations": False}, {})
    other = train_tokenizer(["abc abc abcd"], 290)
    for wrong, said in (
        (asked | {"story_tokens": 41}, "story_tokens: 40, the recipe asks for 41"),
        (asked | {"rows": {"train": 8, "valid": None}}, "rows: .*make tokens with this recipe"),
        (token_config(other, settings_for(other), LIMITS), "tokenizer: another one"),
    ):
        with pytest.raises(BadRequest, match=f"data.tokens: .*: {said}"):
            check_tokens(out, wrong, files)
    with pytest.raises(BadRequest, match="made of another train"):
        check_tokens(out, asked, {"valid": files["train"]})


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room")
def test_room_is_taken_before_an_array_is_filled(tmp_path):
    """A file with holes, filled through a map, kills the process where the disk is full."""
    path = tmp_path / "x.safetensors"
    create_arrays(path, {"values": ("int32", 100_000)})
    assert path.stat().st_blocks * 512 >= path.stat().st_size > 400_000


def test_mapped_arrays_are_safetensors(tmp_path):
    arrays = create_arrays(tmp_path / "ours", {"b": ("int32", 3), "a": ("int64", 2), "none": ("int32", 0)})
    arrays["b"][:], arrays["a"][:] = [1, 2, 3], [2**40, -1]
    del arrays
    read = load_file(tmp_path / "ours")
    assert {name: array.tolist() for name, array in read.items()} == {"b": [1, 2, 3], "a": [2**40, -1], "none": []}
    save_file(read, tmp_path / "theirs")
    assert (tmp_path / "theirs").read_bytes() == (tmp_path / "ours").read_bytes()
    assert {name: array.tolist() for name, array in map_arrays(tmp_path / "theirs").items()} == {
        name: array.tolist() for name, array in read.items()
    }
    for size in (0, 7, 30, 200):
        (tmp_path / "cut").write_bytes((tmp_path / "ours").read_bytes()[:size])
        with pytest.raises(BadRequest, match="cut short or not safetensors"):
            map_arrays(tmp_path / "cut")
