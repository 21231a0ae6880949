"""The part of any checkpoint that reads: a DiscoDVT's posterior, the encoder of an encoder-decoder, else the model."""

from dataclasses import dataclass
from typing import Any

from transformers import AutoModel, BartConfig, PreTrainedConfig, PreTrainedModel

from discodvt.checkpoints import Checkpoint
from discodvt.model import DiscoDVT, DiscoDVTConfig
from discodvt.model.configuration import bart_shape


@dataclass(frozen=True, slots=True)
class Reader:
    """A model that reads, the shape to build it anew, and the type of the checkpoint it was part of."""

    model: PreTrainedModel
    shape: PreTrainedConfig
    part_of: str


def open_reader(source: str) -> Reader:
    """The reading part of a checkpoint: a directory or Hub id, safetensors only, with all its weights."""
    checkpoint = Checkpoint.open(source)
    kind: Any = DiscoDVT if checkpoint.kind == DiscoDVTConfig.model_type else AutoModel
    model = checkpoint.load(kind, may_lack="pooler")
    if isinstance(model, DiscoDVT):
        return Reader(model.posterior.eval(), BartConfig(**bart_shape(model.config)), checkpoint.kind)
    return Reader(reader_of(model).eval(), model.config, checkpoint.kind)


def reader_of(model: PreTrainedModel) -> PreTrainedModel:
    """The part of a model that reads; without a pooler, which would never be trained."""
    reader: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(reader, "pooler", None) is not None:
        reader.pooler = None
    part: PreTrainedModel = reader
    return part
