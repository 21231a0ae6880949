"""Random models in directories, for the bench of writing: as sure of themselves as trained ones."""

import json
from math import sqrt
from pathlib import Path
from typing import Any

import torch
from transformers import BartConfig, BartForConditionalGeneration, BartTokenizer, LlamaConfig, LlamaForCausalLM

from discodvt.data.subwords import train_tokenizer
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig

PROMPTS = (
    "The fox who lost his hat",
    "Once there was a little girl named Lily who loved the rain.",
    "Tom and the big red boat",
    "A small bear wanted to make a cake for his mother.",
    "The day the moon came down",
)
BASE = {"vocab_size": 50265, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 12,
        "decoder_attention_heads": 12, "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072}  # fmt: skip
NANO = {"vocab_size": 8192, "d_model": 192, "encoder_layers": 2, "decoder_layers": 4, "encoder_attention_heads": 6,
        "decoder_attention_heads": 6, "encoder_ffn_dim": 768, "decoder_ffn_dim": 768}  # fmt: skip
LLAMA = {"vocab_size": 5252, "hidden_size": 288, "num_hidden_layers": 6, "num_attention_heads": 6,
         "num_key_value_heads": 6, "intermediate_size": 768, "max_position_embeddings": 512}  # fmt: skip
SMOL = {"vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "intermediate_size": 1536, "max_position_embeddings": 2048}  # fmt: skip
SHARPNESS = 4.0  # standard deviation of a random model's logits: nuclei as small as those of a trained one


def random_writer(directory: Path, shape: dict[str, int], *, planned: bool, half: bool = True) -> Path:
    """A random model in a directory, in half precision or not; its last norm is scaled to make it sure of itself."""
    torch.manual_seed(0)
    model: Any = _bart(shape) if "d_model" in shape else _llama(shape)
    if planned:
        model = DiscoDVT.from_bart(model, conv_channels=256, relation_width=64)
        prior = PlanPrior(PlanPriorConfig.from_backbone_config(model.config.backbone, max_codes=40))
        prior.half().save_pretrained(directory / "prior")
    (model.half() if half else model).save_pretrained(directory)
    _tokenizer(shape["vocab_size"]).save_pretrained(directory)
    return directory


def _tokenizer(vocabulary: int) -> BartTokenizer:
    """A tokenizer of so many subwords, most of which no text has: a checkpoint with fewer would be refused."""
    known = json.loads(train_tokenizer(PROMPTS, 400).backend_tokenizer.to_str())["model"]
    vocab = known["vocab"] | {f"unused{number}": number for number in range(len(known["vocab"]), vocabulary)}
    merges: Any = [tuple(merge) for merge in known["merges"]]
    return BartTokenizer(vocab=vocab, merges=merges, add_prefix_space=True)


@torch.no_grad()
def _bart(shape: dict[str, int]) -> BartForConditionalGeneration:
    settings: dict[str, Any] = shape | {"decoder_start_token_id": 0, "forced_eos_token_id": None}
    settings["normalize_before"] = False  # CTranslate2 asks for it
    bart = BartForConditionalGeneration(BartConfig(**settings))
    spread = (bart.config.init_std or 0.02) * sqrt(shape["d_model"])
    bart.model.decoder.layers[-1].final_layer_norm.weight.mul_(SHARPNESS / spread)
    return bart


@torch.no_grad()
def _llama(shape: dict[str, int]) -> LlamaForCausalLM:
    settings: dict[str, Any] = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": True}
    llama = LlamaForCausalLM(LlamaConfig(**shape | settings))
    spread = llama.config.initializer_range * sqrt(shape["hidden_size"])
    llama.model.norm.weight.mul_(SHARPNESS / spread)
    return llama
