"""The configuration of a tiny BART, encoder and decoder alike."""

from typing import Any

from transformers import BartConfig


def tiny_bart(
    vocabulary: int, *, width: int = 16, layers: int = 1, heads: int = 2, ffn_width: int = 16, positions: int = 64,
    **more: Any,
) -> BartConfig:  # fmt: skip
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder")
             for name, size in (("layers", layers), ("attention_heads", heads), ("ffn_dim", ffn_width))}  # fmt: skip
    return BartConfig(vocab_size=vocabulary, d_model=width, max_position_embeddings=positions, **sides, **more)
