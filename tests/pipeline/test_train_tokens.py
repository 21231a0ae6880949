"""Training on tokens that were made before: the same run, and a process whose memory does not grow with the corpus."""

import json
from pathlib import Path

import numpy as np
import program
import pytest
from pipeline.toy_corpus import write_corpus
from pipeline.trainings import held_at_the_end

from discodvt.corpus import CORPUS_SCHEMA, write_rows
from discodvt.data import token_shards
from discodvt.data.tokens import Ragged, Tokens
from discodvt.training.recipes import read_recipe

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny" / "pretrain.toml"
SHORT = ("run.steps=3", "run.tensorboard=false", "run.log_every_steps=1")


def settings(*values: str) -> list[str]:
    return [word for value in (*SHORT, *values) for word in ("--set", value)]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("tokens")
    write_corpus(directory / "corpus", train=32, valid=8)
    made = program.run("tokenize", RECIPE, directory / "tokens", *settings(f"data.corpus={directory / 'corpus'}"))
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("train: 32 stories")
    return directory


def train(place: Path, out: Path, *values: str):
    return program.run("train", RECIPE, "--out", out, *settings(f"data.corpus={place / 'corpus'}", *values))


def test_the_run_is_the_same_with_tokens_of_its_own_and_with_given_ones(place, tmp_path):
    own = train(place, tmp_path / "own")
    given = train(place, tmp_path / "given", f"data.tokens={place / 'tokens'}")
    assert (own.returncode, given.returncode) == (0, 0), own.stderr + given.stderr
    assert not (tmp_path / "own" / "tokens").exists()
    for name in ("metrics.jsonl", "model.safetensors", "tokenizer.json"):
        assert (tmp_path / "own" / name).read_bytes() == (tmp_path / "given" / name).read_bytes(), name
    manifest = json.loads((tmp_path / "given" / "manifest.json").read_text())
    assert "data.tokens" not in json.dumps(manifest["inputs"])
    assert list(manifest["inputs"]) == ["manifest.json"]  # of the tokens: the corpus need not be there


def test_a_shard_cut_short_is_one_line(place, tmp_path):
    shard = place / "tokens" / "valid" / "000000.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-100])
    try:
        said = program.refused(train(place, tmp_path / "out", f"data.tokens={place / 'tokens'}"), "000000.safetensors")
    finally:
        shard.write_bytes(whole)
    assert "cut short" in said
    assert not (tmp_path / "out").exists()


def test_tokens_of_another_length_or_stage_are_refused(place, tmp_path):
    tokens = f"data.tokens={place / 'tokens'}"
    program.refused(train(place, tmp_path / "out", tokens, "data.story_tokens=40"), "story_tokens", "asks for 40")
    program.refused(train(place, tmp_path / "out", f"data.tokens={place / 'corpus'}"), "not made by discodvt")


def stories_of(length: int):
    """In place of `tokenize_rows`: as many stories of one length, at once."""

    def made(path, tokenizer, settings, *, skip, take) -> Tokens:
        words = Ragged(np.full(take * length, 7, dtype=np.int32), np.arange(take + 1) * length)
        none = Ragged(np.empty(0, dtype=np.int32), np.zeros(take + 1, dtype=np.int64))
        return Tokens(words, words, none, none)

    return made


@pytest.mark.usefixtures("warm_workers")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    """Ten times the stories, 12 and 120 MB of tokens: the process holds no more (mapped pages apart)."""
    monkeypatch.setattr(token_shards, "tokenize_rows", stories_of(97))
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    values = (f"data.corpus={corpus}", "model.shape.positions=99")
    for name, stories in {"few": 15_000, "many": 150_000}.items():
        for split, count in (("train", stories), ("valid", 8)):
            rows = ({"id": "", "prompt": "", "story": "a"} for _ in range(count))
            write_rows(corpus / f"{split}.parquet", rows, CORPUS_SCHEMA)
        assert program.run("tokenize", RECIPE, tmp_path / name, *settings(*values)).returncode == 0
    (corpus / "train.parquet").unlink()
    sizes = ("few", "few", "many")
    recipes = [read_recipe(RECIPE, [*SHORT, *values, f"data.tokens={tmp_path / size}"]) for size in sizes]
    _, few, many = held_at_the_end(recipes, tmp_path / "run")
    assert many <= 1.1 * few
