"""Where a stage's model comes from: a checkpoint (BART or DiscoDVT, local or Hub, safetensors only) or a shape."""

from typing import Any

from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerBase

from discodvt.checkpoints import Checkpoint
from discodvt.config import Model, Shape
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, PlanPrior, PlanPriorConfig


def bart_model(settings: Model, tokenizer: PreTrainedTokenizerBase) -> BartForConditionalGeneration:
    """A BART: the one of `init`, or a new one of `shape`."""
    if settings.shape is not None:
        return BartForConditionalGeneration(_bart_config(settings.shape, tokenizer))
    source = _source(settings)
    if source.kind == "discodvt":
        raise BadRequest(f"{settings.init}: a DiscoDVT; this stage trains a plain BART, give one of those")
    return _bart(source, settings)


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
    if source.kind == "bart":
        return DiscoDVT.from_bart(_bart(source, settings), **sizes)
    model = trained_model(settings, may_change=("bottleneck",))
    if "code_logit_gain" in settings.model_fields_set:
        model.config.code_logit_gain = settings.code_logit_gain  # of new codes
    if "bottleneck" in settings.model_fields_set:
        model.change_bottleneck(settings.bottleneck)
    return model


def trained_model(settings: Model, *, may_change: tuple[str, ...] = ()) -> DiscoDVT:
    """The DiscoDVT of `init` as it was trained; a recipe that asks for other codes or sizes is refused."""
    source = _source(settings)
    if source.kind == "bart":
        raise BadRequest(f"{settings.init}: a plain BART, which knows no plans; give a trained DiscoDVT")
    model: DiscoDVT = source.load(DiscoDVT, **_changes(settings))
    sizes = ("num_codes", "code_width", "conv_layers", "conv_channels", "relation_width", "bottleneck")
    for name in sizes:
        wanted, found = getattr(settings, name), getattr(model.config, name)
        if name in settings.model_fields_set and name not in may_change and wanted != found:
            raise BadRequest(
                f"{settings.init}: a checkpoint of another shape: {name} is {found}, the recipe asks for {wanted}"
            )
    return model


def prior_model(model: DiscoDVT, settings: Model, *, max_codes: int) -> PlanPrior:
    """A prior of the generator's shape: its encoder starts as that of a BART, its decoder from scratch."""
    config = PlanPriorConfig.from_bart_config(model.config, num_codes=model.config.num_codes, max_codes=max_codes)
    prior = PlanPrior(config)
    encoder = model.get_encoder()
    if settings.prior_encoder is not None:
        encoder = _bart(Checkpoint.open(settings.prior_encoder).require("bart"), settings).get_encoder()
    try:
        prior.encoder.load_state_dict(encoder.state_dict())
    except RuntimeError:
        raise BadRequest(f"{settings.prior_encoder}: an encoder of another shape than the generator's") from None
    return prior


def checkpoint_of(source: str) -> Checkpoint:
    """The checkpoint of a source, which must be a BART or a DiscoDVT."""
    return Checkpoint.open(source).require("bart", "discodvt")


def _source(settings: Model) -> Checkpoint:
    if settings.init is None:
        raise BadRequest("model.init: a checkpoint is needed")
    return checkpoint_of(settings.init)


def _bart(checkpoint: Checkpoint, settings: Model) -> BartForConditionalGeneration:
    model: BartForConditionalGeneration = checkpoint.load(BartForConditionalGeneration, **_changes(settings))
    return model


def _changes(settings: Model) -> dict[str, Any]:
    return {} if settings.dropout is None else {"dropout": settings.dropout}


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
