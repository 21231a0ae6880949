"""Tiny language models with random weights, and recipes that train on them."""

import shutil
from pathlib import Path

import torch
from pipeline.toy_corpus import story, write_corpus
from tiny_bart import tiny_bart
from transformers import (
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

from discodvt.baselines.plot_corpus import PAIR_SCHEMA
from discodvt.corpus import write_rows
from discodvt.data.subwords import train_tokenizer
from discodvt.discourse.labels import LABELS
from discodvt.model import DiscoDVT
from discodvt.training.assembly import Recipe
from discodvt.training.recipes import read_recipe

COMMON = """
[data]
prompt_tokens = 8
story_tokens = 64
[optimizer]
learning_rate = 3e-3
[batch]
stories_per_step = 8
stories_per_micro_batch = 8
[validation]
every_steps = 16
[run]
steps = 16
tensorboard = false
"""
LATENT = """
[loss]
entropy = 0.1
relation = 0.5
[model]
num_codes = 16
code_width = 8
conv_channels = 16
relation_width = 8
bottleneck = "bits"
"""
SIZES = {"num_codes": 16, "code_width": 8, "conv_channels": 16, "relation_width": 8}
FOUR_STEPS = (
    "run.steps=4", "run.save_every_steps=2", "run.log_every_steps=2", "validation.every_steps=2",
    "batch.stories_per_step=8", "batch.stories_per_micro_batch=2", "seed=1",
)  # fmt: skip
LORA = ("model.tune=lora", "lora.rank=4")


def save_language_models(
    directory: Path, *names: str, width: int = 32, ffn_width: int = 48, heads: int = 4, **of_bart: float
) -> dict[str, PreTrainedModel]:
    """Some of `llama`, `gpt2` and `bart`, each with the tokenizer."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer((str(story(number)["story"]) for number in range(50)), 400)
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    ids |= {"tie_word_embeddings": True}
    common = {"vocab_size": len(tokenizer), "max_position_embeddings": 96} | ids
    shape = {"hidden_size": width, "intermediate_size": ffn_width, "num_attention_heads": heads}
    of_bart |= {"width": width, "ffn_width": ffn_width, "heads": heads, "decoder_start_token_id": 0}
    made = {
        "llama": (LlamaForCausalLM, LlamaConfig(num_hidden_layers=2, initializer_range=0.15, **shape, **common)),
        "gpt2": (GPT2LMHeadModel, GPT2Config(n_embd=width, n_layer=2, n_head=heads, **common)),
        "bart": (BartForConditionalGeneration, tiny_bart(len(tokenizer), positions=96, **of_bart, **ids)),
    }
    models = {name: made[name][0](made[name][1]) for name in names}
    for name, model in models.items():
        model.save_pretrained(directory / name)
        tokenizer.save_pretrained(directory / name)
    return models


def make_home(directory: Path) -> Path:
    """A corpus, pairs for a rescorer, a BART and a Llama, both with tied embeddings, and a DiscoDVT around each."""
    write_corpus(directory / "corpus", train=32, valid=8)
    (directory / "pairs").mkdir()
    for split, size in (("train", 32), ("valid", 8)):
        rows = ({**story(number), "changed": story(number + size)["story"]} for number in range(size))
        pairs = ({name: row[name] for name in PAIR_SCHEMA.names} for row in rows)
        write_rows(directory / "pairs" / f"{split}.parquet", pairs, PAIR_SCHEMA)
    sizes = {"width": 16, "ffn_width": 24, "heads": 2, "dropout": 0.0, "init_std": 0.2}
    for name, model in save_language_models(directory, "bart", "llama", **sizes).items():
        planned = Path(shutil.copytree(directory / name, directory / f"{name}-plan"))
        DiscoDVT.from_backbone(model, num_relations=len(LABELS), **SIZES).save_pretrained(planned)
    return directory


def toy_recipe(home: Path, stage: str, init: str, *values: str) -> Recipe:
    """Four steps of a stage from a model of `home`, on its corpus or on `data.corpus=pairs`."""
    sizes = SIZES if stage in ("codes", "warm-start", "reconstruct") else {}
    path = home / f"{stage}.toml"
    path.write_text(f'stage = "{stage}"\n{COMMON}[model]\n' + "".join(f"{key} = {n}\n" for key, n in sizes.items()))
    given = (f"data.corpus={home / 'corpus'}", f"model.init={home / init}", *FOUR_STEPS)
    located = (value.replace("data.corpus=pairs", f"data.corpus={home / 'pairs'}") for value in values)
    return read_recipe(path, [*given, *located])
