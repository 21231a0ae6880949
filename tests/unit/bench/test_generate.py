"""The writing bench: both sides write the same lengths, and its rows (at a size too small for its promises)."""

import sys
from contextlib import nullcontext

import pytest

from discodvt.bench import generate as bench
from discodvt.bench.random_writers import PROMPTS
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
SMALL_LLAMA = {
    "vocab_size": 420,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
}


@pytest.fixture(params=["bart", "llama"])
def writer(request, tmp_path) -> StoryWriter:
    shape = SMALL if request.param == "bart" else SMALL_LLAMA
    directory = bench.random_writer(tmp_path / "random", shape, planned=request.param == "bart")
    return StoryWriter.from_pretrained(directory)


def test_both_sides_write_the_lengths_they_are_given(writer, monkeypatch):
    lengths = [5, 30, 17]
    steps = []
    generate = writer.model.generate
    monkeypatch.setattr(writer.model, "generate", lambda *a, **k: steps.append(generate(*a, **k)) or steps[-1])
    bench.hugging_face(writer, lengths, rows=2)
    prompts = [len(writer.prompt_ids(prompt)) for prompt in PROMPTS[:3]]
    before = [max(prompts[:2])] * 2 + prompts[2:] if writer.engine == "llama" else [0] * 3
    written = [row[start:] for start, row in zip(before, (row for batch in steps for row in batch), strict=True)]
    ends = [(row[1:] == writer.tokenizer.eos_token_id).nonzero()[0].item() + 1 for row in written]
    assert ends == lengths  # the start symbol, then as many, of which the end is the last
    drafts = []
    story = writer.story
    monkeypatch.setattr(writer, "story", lambda draft: drafts.append(len(draft.symbols)) or story(draft))
    bench.ours(writer, lengths, rows=2)
    assert drafts == lengths


def test_ctranslate2_writes_the_length_it_is_given(tmp_path):
    pytest.importorskip("ctranslate2")
    for name, shape in (("bart", SMALL), ("llama", SMALL_LLAMA)):
        writer = StoryWriter.from_pretrained(bench.random_writer(tmp_path / name, shape, planned=False))
        work = bench.ctranslate2_work(writer, tmp_path / f"{name}-converted")
        assert [len(story) for story in work([17] * 3)] == [17] * 3


@pytest.fixture
def small_bench(monkeypatch, tmp_path) -> None:
    for name, shape in (("NANO", SMALL), ("BASE", SMALL), ("LLAMA", SMALL_LLAMA), ("SMOL", SMALL_LLAMA)):
        monkeypatch.setattr(bench, name, shape)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)  # as where it is not installed
    monkeypatch.setattr(bench, "STORYTELLER", tmp_path / "nowhere")
    monkeypatch.setattr(bench, "_threads", lambda count: nullcontext())  # two threads on busy cores take minutes
    monkeypatch.setattr(bench.WritingBench, "_start_up", lambda self: bench.Measured([1.0], [1.0], ""))


def test_rows_with_small_shapes(small_bench):
    rows = list(bench.bench_generate(rounds=1, scale=0.03))
    promises = ["at least 3", "at least 3", "reported", *["at most 1", "at most 0.5"] * 3]
    promises += ["at least 1.2", "at least 1.5", "reported"]
    promises += ["at least 2.5", "at least 3", "reported", "at most 0.001", "at most 2"]
    assert [row.promise for row in rows] == promises
    assert [row.note for row in rows if row.ratio is None] == ["ctranslate2 is not installed (extra dev)"] * 6
    assert rows[-2].ratio == 0
    assert "0 of 20 differ" in rows[-2].note


def test_no_row_is_begun_when_the_time_is_over(small_bench):
    rows = list(bench.bench_generate(rounds=1, scale=0.03, minutes=0.0))
    assert len(rows) == 17
    assert {(row.ratio, row.kept, row.note) for row in rows} == {(None, None, "the 0 minutes (--minutes) were over")}
