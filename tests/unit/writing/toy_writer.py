"""Small random writers in directories as training leaves them; loud enough that every mistake shows."""

from pathlib import Path
from typing import Any

import torch
from tiny_bart import tiny_bart
from transformers import (
    AutoModelForCausalLM,
    BartConfig,
    BartForConditionalGeneration,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
    SmolLM3Config,
)

from discodvt.data.subwords import train_tokenizer
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig
from discodvt.model.prior import new_prior
from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.story_batch import StoryDraft

TEXTS = [
    "Once there was a fox. He lost his hat, and he cried!",
    "Ann saw a café. “Oh,” she said. The naïve dog ran home 🦊.",
]
CODES, MOST_CODES, TOKENS_PER_CODE = 12, 9, 4


def _shape(vocabulary: int) -> BartConfig:
    ids = {"decoder_start_token_id": 0, "forced_eos_token_id": None}
    return tiny_bart(vocabulary, layers=2, ffn_width=32, positions=80, init_std=0.3, **ids)


def save_writer(
    directory: Path, *, prior: bool = True, dtype: torch.dtype = torch.float32, bottleneck: str = "gumbel"
) -> Path:
    """A DiscoDVT and, if wanted, its prior."""
    torch.manual_seed(0)
    codes = 16 if bottleneck == "bits" else CODES
    tokenizer = train_tokenizer(TEXTS, 320)
    shape = _shape(len(tokenizer))
    sizes = {"code_width": 8, "conv_channels": 8, "conv_layers": 2, "relation_width": 4, "num_relations": 3}
    model = DiscoDVT.from_bart(shape, num_codes=codes, bottleneck=bottleneck, **sizes)
    with torch.no_grad():
        model.up.projection.weight.normal_(std=3.0)
        model.generator.final_logits_bias.normal_(std=0.5)
    model.to(dtype).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    if prior:
        config = PlanPriorConfig.from_backbone_config(shape, num_codes=codes, max_codes=MOST_CODES)
        PlanPrior(config).to(dtype).save_pretrained(directory / "prior")
    return directory


def save_bart(directory: Path) -> Path:
    """A plain BART, as the `seq2seq` stage leaves it."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS, 320)
    BartForConditionalGeneration(_shape(len(tokenizer))).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def causal_shape(kind: str, vocabulary: int) -> PreTrainedConfig:
    """A tiny causal model of one of the kinds the engines know, each with what is special about it."""
    sizes: dict[str, Any] = {
        "vocab_size": vocabulary, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 160,
        "initializer_range": 0.3, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1,
    }  # fmt: skip
    llama3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 40}  # fmt: skip
    yarn = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 40}
    linear = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.0}
    shapes: dict[str, Any] = {
        "llama": lambda: LlamaConfig(**sizes, tie_word_embeddings=True, attention_bias=True, mlp_bias=True),
        "llama-linear": lambda: LlamaConfig(**sizes, rope_parameters=linear, tie_word_embeddings=False),
        "llama-llama3": lambda: LlamaConfig(**sizes | {"num_key_value_heads": 4}, rope_parameters=llama3),
        "llama-yarn": lambda: LlamaConfig(**sizes, rope_parameters=yarn),
        "mistral": lambda: MistralConfig(**sizes, sliding_window=None),
        "mistral-sliding": lambda: MistralConfig(**sizes, sliding_window=7),
        "qwen2": lambda: Qwen2Config(**sizes | {"bos_token_id": None}),
        "qwen3": lambda: Qwen3Config(**sizes | {"head_dim": 12, "num_key_value_heads": 1}),
        "smollm3": lambda: SmolLM3Config(**sizes, no_rope_layers=[1, 0, 1]),
        "gpt2": lambda: GPT2Config(
            vocab_size=vocabulary, n_embd=24, n_layer=2, n_head=2, n_positions=160, initializer_range=0.3,
            bos_token_id=0, eos_token_id=2, pad_token_id=1,
        ),
        "gemma3": lambda: Gemma3TextConfig(
            **sizes, sliding_window=7, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            query_pre_attn_scalar=8,
        ),
    }  # fmt: skip
    shape: PreTrainedConfig = shapes[kind]()
    return shape


def save_causal_writer(directory: Path, kind: str, *, prior: bool = True) -> Path:
    """A DiscoDVT around a tiny causal model, and its prior."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS, 320)
    sizes = {"code_width": 8, "conv_channels": 8, "conv_layers": 2, "relation_width": 4, "num_relations": 3}
    separator = {} if kind == "qwen2" else {"separator_token_id": 3}
    model = DiscoDVT.from_backbone(causal_shape(kind, len(tokenizer)), num_codes=CODES, **sizes, **separator)
    with torch.no_grad():
        model.up.projection.weight.normal_(std=3.0)
    _roughen(model.generator)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    if prior:
        planner = new_prior(model, max_codes=MOST_CODES)
        _roughen(planner)
        planner.save_pretrained(directory / "prior")
    return directory


def save_causal_model(directory: Path, kind: str) -> Path:
    """A plain causal language model."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(TEXTS, 320)
    model = AutoModelForCausalLM.from_config(causal_shape(kind, len(tokenizer)))
    _roughen(model)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def open_writer(directory: Path, kind: str) -> StoryWriter:
    """Around a BART, or around a causal model."""
    return StoryWriter.from_pretrained(
        save_writer(directory) if kind == "bart" else save_causal_writer(directory, kind)
    )


def written(writer: StoryWriter, requests: list[Request], params: SamplingParams, rows: int = 2) -> list[StoryDraft]:
    """Stories, some of them beside each other."""
    batch = writer.batch(rows)
    drafts = [batch.add(request, params) for request in requests]
    while batch:
        batch.step()
    return drafts


@torch.no_grad()
def _roughen(model: torch.nn.Module) -> None:
    """Norms and biases that are not those of a new model, so that one left out shows."""
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            weight.add_(torch.randn_like(weight) * (0.3 if "norm" in name or "ln_" in name else 0.5))
