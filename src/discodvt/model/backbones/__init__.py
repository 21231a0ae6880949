"""The backbones: encoder-decoder (BART) and causal, behind one interface (`base.Backbone`)."""

from typing import Any

import torch
from transformers import AutoModelForCausalLM, BartForConditionalGeneration, PreTrainedModel

from discodvt.checkpoints import Checkpoint
from discodvt.errors import BadRequest
from discodvt.model.backbones.base import Backbone, Prompt, masked_mean
from discodvt.model.backbones.causal import CausalBackbone
from discodvt.model.backbones.encoder_decoder import EncoderDecoderBackbone


def new_backbone(config: Any, *, separator: int | None = None) -> Backbone:
    """The backbone of a Hugging Face configuration; `separator` is SEP of a causal one (None: its end symbol)."""
    if config.model_type == "bart":
        return EncoderDecoderBackbone(config)
    if config.is_encoder_decoder:
        raise BadRequest(f"a {config.model_type} is an encoder-decoder other than BART; give a BART or a causal model")
    return CausalBackbone(config, separator=separator)


def load_language_model(
    checkpoint: Checkpoint, *, device: torch.device | str = "cpu", merged: bool = True, **changes: Any
) -> PreTrainedModel:
    """The plain language model of a checkpoint, its LoRA merged or left out; `changes` as of `load`."""
    if checkpoint.kind.startswith("discodvt"):
        raise BadRequest(f"{checkpoint.directory}: a {checkpoint.kind} checkpoint; give a plain language model")
    kind = AutoModelForCausalLM if checkpoint.causal else BartForConditionalGeneration
    model: PreTrainedModel = checkpoint.load(kind, device=device, merged=merged, **changes)
    return model


__all__ = [
    "Backbone",
    "CausalBackbone",
    "EncoderDecoderBackbone",
    "Prompt",
    "load_language_model",
    "masked_mean",
    "new_backbone",
]
