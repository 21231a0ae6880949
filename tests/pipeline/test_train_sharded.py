"""FSDP: two processes with shards equal one without, in every stage, around both backbones (denoising is BART's alone);
checkpoints of one kind of run are resumed by the other."""

import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from pipeline.test_train_causal import COMMON
from pipeline.test_train_stages import in_child, lines
from pipeline.toy_corpus import story, write_corpus
from safetensors.torch import load_file
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM

from discodvt.baselines.plot_corpus import PAIR_SCHEMA
from discodvt.corpus import write_rows
from discodvt.data.subwords import train_tokenizer
from discodvt.discourse.labels import LABELS
from discodvt.model import DiscoDVT
from discodvt.stored_weights import weight_files
from discodvt.training.assembly import Recipe
from discodvt.training.recipes import read_recipe
from discodvt.training.run import train

SIZES = {"num_codes": 16, "code_width": 8, "conv_channels": 16, "relation_width": 8}
LATENT = "".join(f"{name} = {value}\n" for name, value in SIZES.items())
BLEU = ("validation.select_by=bleu-1", "validation.bleu_stories=4", "watchdog.restart_dead_codes=true")
STEPS = ("run.steps=4", "run.save_every_steps=2", "run.log_every_steps=2", "validation.every_steps=2")
CUT = ("batch.stories_per_step=8", "batch.stories_per_micro_batch=2")
LORA = ("model.tune=lora", "lora.rank=4")
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


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch):
    """They take longer than four steps."""
    monkeypatch.setattr("discodvt.training.run.plot", lambda directory: None)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Tiny random models: a BART and a Llama, both with tied embeddings, and a DiscoDVT around each."""
    directory = tmp_path_factory.mktemp("sharded")
    write_corpus(directory / "corpus", train=32, valid=8)
    write_pairs(directory / "pairs", train=32, valid=8)
    torch.manual_seed(0)
    tokenizer = train_tokenizer((str(story(number)["story"]) for number in range(32)), 300)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    ids |= {"vocab_size": len(tokenizer), "max_position_embeddings": 96, "tie_word_embeddings": True}
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    layers = {f"{side}_{what}": size for side in ("encoder", "decoder")
              for what, size in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 24))}  # fmt: skip
    bart = BartConfig(d_model=16, dropout=0.0, decoder_start_token_id=0, init_std=0.2, **layers, **ids)
    models = {
        "bart": BartForConditionalGeneration(bart),
        "llama": LlamaForCausalLM(LlamaConfig(initializer_range=0.15, **shape, **ids)),
    }
    for name, model in models.items():
        model.save_pretrained(directory / name)
        tokenizer.save_pretrained(directory / name)
        DiscoDVT.from_backbone(model, num_relations=len(LABELS), **SIZES).save_pretrained(directory / f"{name}-plan")
        tokenizer.save_pretrained(directory / f"{name}-plan")
    return directory


def write_pairs(directory: Path, **sizes: int) -> None:
    """What a rescorer reads: the story of a prompt, and another one."""
    directory.mkdir()
    for split, size in sizes.items():
        rows = ({**story(number), "changed": story(number + size)["story"]} for number in range(size))
        pairs = ({name: row[name] for name in PAIR_SCHEMA.names} for row in rows)
        write_rows(directory / f"{split}.parquet", pairs, PAIR_SCHEMA)


def recipe_of(home: Path, stage: str, init: str, *values: str) -> Recipe:
    has_codes = stage in ("codes", "warm-start", "reconstruct")
    path = home / f"{stage}.toml"
    path.write_text(f'stage = "{stage}"\n{COMMON}[model]\n{LATENT if has_codes else ""}')
    given = (f"data.corpus={home / 'corpus'}", f"model.init={home / init}", "seed=1", *STEPS, *CUT)
    located = (value.replace("data.corpus=pairs", f"data.corpus={home / 'pairs'}") for value in values)
    return read_recipe(path, [*given, *located])


def in_two(work: Callable[[], object]) -> list[int]:
    """Run `work` in two processes that know of each other; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    def rank(number: int) -> None:
        os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        work()
        torch.distributed.destroy_process_group()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda number: in_child(lambda: rank(number)), (0, 1)))


def assert_same(one: Path, other: Path, *, within: float) -> None:
    """The model a run leaves, and the figures of its validations."""
    models = [path / "prior" if (path / "prior").exists() else path for path in (one, other)]
    ours, theirs = (load_file(weight_files(directory)[0]) for directory in models)
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        if not name.endswith("k_proj.bias"):  # softmax cancels it: its gradient is rounding, which Adam blows up
            torch.testing.assert_close(theirs[name], weight, atol=within, rtol=within, msg=name)
    for first, second in zip(lines(one, "valid"), lines(other, "valid"), strict=True):
        assert first == pytest.approx(second, abs=within)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_with_shards_equal_one(home, case, tmp_path):
    stage, init, values = CASES[case]

    def run(out: str, *more: str) -> None:
        list(train(recipe_of(home, stage, init, *values, *more), tmp_path / out))

    assert in_child(lambda: run("one")) == 0
    assert in_two(lambda: run("two", "run.fsdp=true")) == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "two", within=1e-5)
    last = tmp_path / "two" / "last-0000004"
    assert len(list((last / "shards" / "weights").iterdir())) == 2
    assert not list(last.rglob("*.distcp"))


def killed_at(step: int, recipe: Recipe, out: Path) -> None:
    """Train until this process kills itself, and with it the run."""
    for event in train(recipe, out):
        if event.kind == "step" and event.step == step:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(("stage", "init", "values"), [("reconstruct", "bart", ()), ("reconstruct", "llama", LORA)])
def test_a_checkpoint_is_resumed_by_another_number_of_processes(home, stage, init, values, tmp_path):
    def recipe() -> Recipe:
        return recipe_of(home, stage, init, *values, "run.fsdp=true")

    def resume(out: str) -> None:
        list(train(recipe(), tmp_path / out, resume=True))

    assert in_child(lambda: list(train(recipe(), tmp_path / "one"))) == 0
    assert -signal.SIGKILL in in_two(lambda: killed_at(3, recipe(), tmp_path / "two then one"))
    assert (tmp_path / "two then one" / "last-0000002" / "shards" / "optimizer").exists()
    assert in_child(lambda: resume("two then one")) == 0
    assert_same(tmp_path / "one", tmp_path / "two then one", within=1e-6)
    assert in_child(lambda: killed_at(3, recipe(), tmp_path / "one then two")) == -signal.SIGKILL
    assert in_two(lambda: resume("one then two")) == [0, 0]
    assert_same(tmp_path / "one", tmp_path / "one then two", within=1e-6)


def test_bf16_and_activation_checkpointing_with_shards(home, tmp_path):
    """Layers compute in bfloat16, weights are float32: the loss is that of one process, coarsely as bfloat16 is."""
    values = ("run.precision=bf16", "run.gradient_checkpointing=true", *LORA)

    def run(out: str) -> None:
        list(train(recipe_of(home, "reconstruct", "llama", *values, "run.fsdp=true"), tmp_path / out))

    assert in_child(lambda: run("one")) == 0
    assert in_two(lambda: run("two")) == [0, 0]
    assert {weight.dtype for weight in load_file(weight_files(tmp_path / "two")[0]).values()} == {torch.float32}
    for first, second in zip(lines(tmp_path / "one", "valid"), lines(tmp_path / "two", "valid"), strict=True):
        assert first["reconstruction"] == pytest.approx(second["reconstruction"], abs=2e-3)
