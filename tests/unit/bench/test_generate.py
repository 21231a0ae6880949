"""The writing bench: both sides write the same lengths, and its rows (at a size too small for its promises)."""

from contextlib import nullcontext

import pytest

from discodvt.bench import generate as bench
from discodvt.bench.rows import BenchRow
from discodvt.writing import StoryWriter

SMALL = {
    "vocab_size": 420,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}


@pytest.fixture
def writer(tmp_path) -> StoryWriter:
    return StoryWriter.from_pretrained(bench.random_writer(tmp_path / "random", SMALL, planned=True))


def test_both_sides_write_the_lengths_they_are_given(writer, monkeypatch):
    lengths = [5, 30, 17]
    steps = []
    generate = writer.model.generate
    monkeypatch.setattr(writer.model, "generate", lambda *a, **k: steps.append(generate(*a, **k)) or steps[-1])
    bench._theirs(writer, lengths, rows=2)
    written = [row for batch in steps for row in batch]
    ends = [(row == writer.tokenizer.eos_token_id).nonzero()[0].item() for row in written]
    assert ends == lengths  # `<s>`, then as many symbols, of which the end is the last
    drafts = []
    story = writer._story
    monkeypatch.setattr(writer, "_story", lambda draft: drafts.append(len(draft.symbols)) or story(draft))
    bench._ours(writer, lengths, rows=2)
    assert drafts == lengths


def test_rows_with_small_shapes(monkeypatch, tmp_path):
    monkeypatch.setattr(bench, "NANO", SMALL)
    monkeypatch.setattr(bench, "BASE", SMALL)
    monkeypatch.setattr(bench, "STORYTELLER", tmp_path / "nowhere")
    monkeypatch.setattr(bench, "_threads", lambda count: nullcontext())  # two threads on busy cores take minutes
    monkeypatch.setattr(bench, "_start_up", lambda directory, rounds: BenchRow("start", 1, 1, 1, "at most 2", True))
    rows = bench.bench_generate(rounds=1, scale=0.03)
    promises = ["at least 2.5", "at least 3", "reported", "at most 2", "at most 0.001", "at least 1.5", "reported"]
    assert [row.promise for row in rows] == promises
    assert rows[4].ratio == 0
    assert "0 of 42 differ" in rows[4].note
