"""The part of any checkpoint that reads: a DiscoDVT's posterior, the encoder of an encoder-decoder, else the model."""

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, BartConfig, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, DiscoDVTConfig
from discodvt.model.configuration import bart_shape
from discodvt.model.quiet import quiet_libraries
from discodvt.training.weights import check_source


@dataclass(frozen=True, slots=True)
class Reader:
    """A model that reads, the shape to build it anew, and the type of the checkpoint it was part of."""

    model: PreTrainedModel
    shape: PreTrainedConfig
    part_of: str


def open_reader(source: str) -> Reader:
    """The reading part of a checkpoint: a directory or Hub id, safetensors only, with all its weights."""
    check_source(source)
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # weights of a head that is not read are no news; missing ones are looked for below
    quiet_libraries()
    try:
        config = AutoConfig.from_pretrained(source)
        kind: Any = DiscoDVT if isinstance(config, DiscoDVTConfig) else AutoModel
        model, found = kind.from_pretrained(source, dtype=torch.float32, use_safetensors=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"{source}: no encoder could be opened ({first}); give a checkpoint that reads") from None
    finally:
        logging.set_verbosity(verbosity)
    missing = sorted(name for name in found["missing_keys"] if "pooler" not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise BadRequest(f"{source}: it lacks the weights {missing[0]}{more}; give a whole checkpoint")
    if isinstance(model, DiscoDVT):
        return Reader(model.posterior.eval(), BartConfig(**bart_shape(model.config)), config.model_type)
    return Reader(reader_of(model).eval(), model.config, config.model_type)


def reader_of(model: PreTrainedModel) -> PreTrainedModel:
    """The part of a model that reads; without a pooler, which would never be trained."""
    reader: Any = model.get_encoder() if model.config.is_encoder_decoder else model
    if getattr(reader, "pooler", None) is not None:
        reader.pooler = None
    part: PreTrainedModel = reader
    return part
