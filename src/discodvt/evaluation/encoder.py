"""The encoder of any checkpoint: a DiscoDVT's posterior, the encoder of an encoder-decoder, else the model itself."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel

from discodvt.checkpoints import Checkpoint
from discodvt.model import DiscoDVT, DiscoDVTConfig


@dataclass(frozen=True, slots=True)
class Encoder:
    """A model that reads, the configuration to build it anew, and the type of the checkpoint it was part of."""

    model: PreTrainedModel
    config: PreTrainedConfig
    part_of: str


def open_encoder(checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Encoder:
    """The encoder of a checkpoint, with all its weights and in eval mode."""
    kind: Any = DiscoDVT if checkpoint.kind == DiscoDVTConfig.model_type else AutoModel
    model = checkpoint.load(kind, device=device, may_lack="pooler")
    if isinstance(model, DiscoDVT):
        return Encoder(model.posterior, model.posterior.config, checkpoint.kind)
    return Encoder(encoder_of(model), model.config, checkpoint.kind)


def encoder_of(model: PreTrainedModel) -> PreTrainedModel:
    """The part of a model that reads; without a pooler, which would never be trained."""
    encoder: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    part: PreTrainedModel = encoder
    return part
