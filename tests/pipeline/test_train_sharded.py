"""FSDP: two processes with shards equal one without, in every stage, around both backbones (denoising is BART's alone);
checkpoints of one kind of run are resumed by the other."""

import signal

import pytest
import torch
from pipeline.toy_models import LORA, toy_recipe
from pipeline.trainings import assert_same, in_child, lines, train_until
from safetensors.torch import load_file

from discodvt.stored_weights import weight_files
from discodvt.training.assembly import Recipe
from discodvt.training.run import train

BLEU = (
    "validation.select_by=bleu-1",
    "validation.bleu_stories=4",
    "watchdog.restart_dead_codes=true",
    "validation.every_steps=1",
    "data.story_tokens=32",
)
CASES = {
    "pretrain": ("pretrain", "bart", ()),
    "warm-start": ("warm-start", "bart", ()),
    "reconstruct, BLEU-1, restarts": ("reconstruct", "bart", BLEU),
    "reconstruct, vq": ("reconstruct", "bart", ("model.bottleneck=vq", "loss.entropy=0")),
    "codes": ("codes", "bart", ("model.tune=plan", "model.bottleneck=bits")),
    "prior": ("prior", "bart-plan", ()),
    "seq2seq": ("seq2seq", "bart", ()),
    "cvae": ("cvae", "bart", ()),
    "language-model": ("language-model", "bart", ()),
    "plot-writer": ("plot-writer", "bart", ()),
    "story-writer": ("story-writer", "bart", ()),
    "scorer": ("scorer", "bart", ("data.corpus=pairs", "model.head_dropout=0")),
    "codes, causal": ("codes", "llama", ("model.tune=plan", "model.bottleneck=bits")),
    "reconstruct, causal, LoRA": ("reconstruct", "llama", LORA),
    "prior, causal": ("prior", "llama-plan", ()),
    "seq2seq, causal, LoRA": ("seq2seq", "llama", LORA),
    "warm-start, causal": ("warm-start", "llama", ()),
    "language-model, causal": ("language-model", "llama", ()),
    "cvae, causal": ("cvae", "llama", ()),
    "plot-writer, causal": ("plot-writer", "llama", ()),
    "story-writer, causal": ("story-writer", "llama", ()),
    "scorer, causal": ("scorer", "llama", ("data.corpus=pairs", "model.head_dropout=0")),
}


@pytest.mark.parametrize("case", CASES)
def test_two_processes_with_shards_equal_one(home, pair, case, tmp_path):
    stage, init, values = CASES[case]

    def recipe(*more: str) -> Recipe:
        return toy_recipe(home, stage, init, "run.steps=2", *values, *more)

    list(train(recipe(), tmp_path / "one"))
    pair.train(recipe("run.fsdp=true"), tmp_path / "two")
    model = "prior" if stage == "prior" else ""
    assert_same(tmp_path / "one", tmp_path / "two", model=model, within=1e-5)
    last = tmp_path / "two" / "last-0000002"
    assert len(list((last / "shards" / "weights").iterdir())) == 2
    assert not list(last.rglob("*.distcp"))


def test_bf16_and_activation_checkpointing_with_shards(home, pair, tmp_path):
    """Layers compute in bfloat16, weights are float32: the loss is that of one process, coarsely as bfloat16 is."""
    values = ("run.precision=bf16", "run.gradient_checkpointing=true", *LORA)
    recipe = toy_recipe(home, "reconstruct", "llama", *values, "run.fsdp=true")
    assert in_child(lambda: list(train(recipe, tmp_path / "one"))) == 0
    pair.train(recipe, tmp_path / "two")
    assert {weight.dtype for weight in load_file(weight_files(tmp_path / "two")[0]).values()} == {torch.float32}
    for first, second in zip(lines(tmp_path / "one", "valid"), lines(tmp_path / "two", "valid"), strict=True):
        assert first["reconstruction"] == pytest.approx(second["reconstruction"], abs=2e-3)


@pytest.mark.parametrize(("init", "values"), [("bart", ()), ("llama", LORA)])
def test_a_checkpoint_is_resumed_by_another_number_of_processes(home, pair, init, values, tmp_path):
    """By two where one was killed, and by one where they were killed: each takes one of three steps."""
    each = ("run.steps=3", "run.save_every_steps=1", "validation.every_steps=3")
    recipe = toy_recipe(home, "reconstruct", init, *values, *each, "run.fsdp=true")
    list(train(recipe, tmp_path / "whole"))
    run = tmp_path / "in turn"
    assert in_child(lambda: train_until(2, recipe, run)) == -signal.SIGKILL
    assert (run / "last-0000001" / "optimizer.safetensors").exists()
    pair.train_until(3, recipe, run, resume=True)
    assert (run / "last-0000002" / "shards" / "optimizer").exists()
    list(train(recipe, run, resume=True))
    assert_same(tmp_path / "whole", run, within=1e-6)
