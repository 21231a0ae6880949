"""The backbones: encoder-decoder (BART) and causal, behind one interface (`base.Backbone`)."""

from typing import Any

from discodvt.model.backbones.base import Backbone, Symbols
from discodvt.model.backbones.causal import CausalBackbone
from discodvt.model.backbones.encoder_decoder import EncoderDecoderBackbone


def new_backbone(config: Any, *, separator: int | None = None) -> Backbone:
    """The backbone of a Hugging Face configuration; `separator` is SEP of a causal one (None: its end symbol)."""
    if config.model_type == "bart":
        return EncoderDecoderBackbone(config)
    if config.is_encoder_decoder:
        raise ValueError(f"a {config.model_type} is an encoder-decoder other than BART; give a BART or a causal model")
    return CausalBackbone(config, separator=separator)


__all__ = ["Backbone", "CausalBackbone", "EncoderDecoderBackbone", "Symbols", "new_backbone"]
