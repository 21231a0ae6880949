"""Where a stage's model comes from: a checkpoint (BART or DiscoDVT, local or Hub, safetensors only) or a shape."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, BartConfig, BartForConditionalGeneration, PreTrainedTokenizerBase

from discodvt.config import Model, Shape
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, DiscoDVTConfig, PlanPrior, PlanPriorConfig


def bart_model(settings: Model, tokenizer: PreTrainedTokenizerBase) -> BartForConditionalGeneration:
    """A BART: the one of `init`, or a new one of `shape`."""
    if settings.shape is not None:
        return BartForConditionalGeneration(_bart_config(settings.shape, tokenizer))
    source = _source(settings)
    if isinstance(source_config(source), DiscoDVTConfig):
        raise BadRequest(f"{source}: a DiscoDVT; this stage trains a plain BART, give one of those")
    model: BartForConditionalGeneration = _open(source, BartForConditionalGeneration.from_pretrained, settings)
    return model


def plan_model(settings: Model, tokenizer: PreTrainedTokenizerBase) -> DiscoDVT:
    """A DiscoDVT: the one of `init`, or a new one around the BART of `init` or `shape`."""
    sizes = {
        "num_codes": settings.num_codes,
        "code_width": settings.code_width,
        "conv_layers": settings.conv_layers,
        "conv_channels": settings.conv_channels,
        "relation_width": settings.relation_width,
        "bottleneck": settings.bottleneck,
        "code_logit_gain": settings.code_logit_gain,
        "num_relations": len(LABELS),
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
    }
    if settings.shape is not None:
        return DiscoDVT.from_bart(_bart_config(settings.shape, tokenizer), **sizes)
    source = _source(settings)
    if not isinstance(source_config(source), DiscoDVTConfig):
        bart: BartForConditionalGeneration = _open(source, BartForConditionalGeneration.from_pretrained, settings)
        return DiscoDVT.from_bart(bart, **sizes)
    model = trained_model(settings, may_change=("bottleneck",))
    if "code_logit_gain" in settings.model_fields_set:
        model.config.code_logit_gain = settings.code_logit_gain  # of new codes
    if "bottleneck" in settings.model_fields_set:
        model.change_bottleneck(settings.bottleneck)
    return model


def trained_model(settings: Model, *, may_change: tuple[str, ...] = ()) -> DiscoDVT:
    """The DiscoDVT of `init` as it was trained; a recipe that asks for other codes or sizes is refused."""
    source = _source(settings)
    if not isinstance(source_config(source), DiscoDVTConfig):
        raise BadRequest(f"{source}: a plain BART, which knows no plans; give a trained DiscoDVT")
    model: DiscoDVT = _open(source, DiscoDVT.from_pretrained, settings)
    sizes = ("num_codes", "code_width", "conv_layers", "conv_channels", "relation_width", "bottleneck")
    for name in sizes:
        wanted, found = getattr(settings, name), getattr(model.config, name)
        if name in settings.model_fields_set and name not in may_change and wanted != found:
            raise BadRequest(
                f"{source}: a checkpoint of another shape: {name} is {found}, the recipe asks for {wanted}"
            )
    return model


def prior_model(model: DiscoDVT, settings: Model, *, max_codes: int) -> PlanPrior:
    """A prior of the generator's shape: its encoder starts as that of a BART, its decoder from scratch."""
    config = PlanPriorConfig.from_bart_config(model.config, num_codes=model.config.num_codes, max_codes=max_codes)
    prior = PlanPrior(config)
    encoder = model.get_encoder()
    if settings.prior_encoder is not None:
        encoder = _open(settings.prior_encoder, BartForConditionalGeneration.from_pretrained, settings).get_encoder()
    try:
        prior.encoder.load_state_dict(encoder.state_dict())
    except RuntimeError:
        raise BadRequest(f"{settings.prior_encoder}: an encoder of another shape than the generator's") from None
    return prior


def check_source(source: str) -> None:
    """Refuse a path that leads nowhere, and a directory whose only weights are a pickle: opening one runs code."""
    directory = Path(source)
    if not directory.exists() and (source.startswith((".", "/", "~")) or source.count("/") > 1):  # no Hub id
        raise BadRequest(f"{source}: no such directory; train the stage that makes it first")
    pickles = sorted(directory.glob("*.bin")) + sorted(directory.glob("*.pt"))
    if pickles and not list(directory.glob("*.safetensors")):
        raise BadRequest(f"{pickles[0]}: a pickle, which is never loaded; convert the checkpoint to safetensors")


def source_config(source: str) -> BartConfig:
    """What a checkpoint declares: a BART or a DiscoDVT."""
    check_source(source)
    try:
        config = AutoConfig.from_pretrained(source)
    except (OSError, ValueError) as error:
        raise BadRequest(f"{source}: no checkpoint could be opened ({str(error).splitlines()[0]})") from None
    if config.model_type not in (DiscoDVTConfig.model_type, "bart"):
        raise BadRequest(f"{source}: a {config.model_type} checkpoint; give a BART or a DiscoDVT")
    bart: BartConfig = config
    return bart


def _source(settings: Model) -> str:
    if settings.init is None:
        raise BadRequest("model.init: a checkpoint is needed")
    return settings.init


def _open(source: str, from_pretrained: Callable[..., Any], settings: Model) -> Any:
    """Open a checkpoint in float32, never from a pickle."""
    check_source(source)
    changes = {} if settings.dropout is None else {"dropout": settings.dropout}
    try:
        return from_pretrained(source, dtype=torch.float32, use_safetensors=True, **changes)
    except OSError as error:
        raise BadRequest(
            f"{source}: no safetensors checkpoint could be opened ({str(error).splitlines()[0]})"
        ) from None
    except RuntimeError as error:
        raise BadRequest(f"{source}: weights do not fit their config.json ({str(error).splitlines()[0]})") from None


def _bart_config(shape: Shape, tokenizer: PreTrainedTokenizerBase) -> BartConfig:
    return BartConfig(
        vocab_size=len(tokenizer),
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.ffn_width,
        decoder_ffn_dim=shape.ffn_width,
        max_position_embeddings=shape.positions,
        dropout=shape.dropout,
        init_std=shape.init_std,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
    )
