"""FSDP: two processes with shards equal one without, in every stage, around both backbones (denoising is BART's alone);
checkpoints of one kind of run are resumed by the other."""

import signal

import pytest
import torch
from pipeline.toy_models import LORA, toy_recipe
from pipeline.trainings import assert_same, in_child, in_two, lines, train_until
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
def test_two_processes_with_shards_equal_one(home, case, tmp_path):
    stage, init, values = CASES[case]

    def run(out: str, *more: str) -> None:
        list(train(toy_recipe(home, stage, init, "run.steps=2", *values, *more), tmp_path / out))

    assert in_child(lambda: run("one")) == 0
    assert in_two(lambda: run("two", "run.fsdp=true")) == [0, 0]
    model = "prior" if stage == "prior" else ""
    assert_same(tmp_path / "one", tmp_path / "two", model=model, within=1e-5)
    last = tmp_path / "two" / "last-0000002"
    assert len(list((last / "shards" / "weights").iterdir())) == 2
    assert not list(last.rglob("*.distcp"))


@pytest.mark.parametrize(("stage", "init", "values"), [("reconstruct", "bart", ()), ("reconstruct", "llama", LORA)])
def test_a_checkpoint_is_resumed_by_another_number_of_processes(home, stage, init, values, tmp_path):
    def recipe() -> Recipe:
        return toy_recipe(home, stage, init, *values, "run.fsdp=true")

    def resume(out: str) -> None:
        list(train(recipe(), tmp_path / out, resume=True))

    assert in_child(lambda: list(train(recipe(), tmp_path / "one"))) == 0
    assert -signal.SIGKILL in in_two(lambda: train_until(3, recipe(), tmp_path / "two then one"))
    assert (tmp_path / "two then one" / "last-0000002" / "shards" / "optimizer").exists()
    assert in_child(lambda: resume("two then one")) == 0
    assert_same(tmp_path / "one", tmp_path / "two then one", within=1e-6)
    assert in_child(lambda: train_until(3, recipe(), tmp_path / "one then two")) == -signal.SIGKILL
    assert in_two(lambda: resume("one then two")) == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "one then two", within=1e-6)


def test_bf16_and_activation_checkpointing_with_shards(home, tmp_path):
    """Layers compute in bfloat16, weights are float32: the loss is that of one process, coarsely as bfloat16 is."""
    values = ("run.precision=bf16", "run.gradient_checkpointing=true", *LORA)

    def run(out: str) -> None:
        list(train(toy_recipe(home, "reconstruct", "llama", *values, "run.fsdp=true"), tmp_path / out))

    assert in_child(lambda: run("one")) == 0
    assert in_two(lambda: run("two")) == [0, 0]
    assert {weight.dtype for weight in load_file(weight_files(tmp_path / "two")[0]).values()} == {torch.float32}
    for first, second in zip(lines(tmp_path / "one", "valid"), lines(tmp_path / "two", "valid"), strict=True):
        assert first["reconstruction"] == pytest.approx(second["reconstruction"], abs=2e-3)
