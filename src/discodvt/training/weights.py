"""Where a stage's model comes from: a checkpoint (BART or DiscoDVT, local or Hub, safetensors only) or a shape."""

from pathlib import Path
from typing import Any

from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerBase

from discodvt.checkpoints import Checkpoint
from discodvt.config import Backbone, BackboneShape, Latent, LatentModel, NewBackbone
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, PlanPrior


def bart_model(
    settings: NewBackbone, tokenizer: PreTrainedTokenizerBase, last: Path | None
) -> BartForConditionalGeneration:
    """A BART: that of the checkpoint `last`, the one of `init`, or a new one of `shape`."""
    if last is None and settings.shape is not None:
        return BartForConditionalGeneration(_bart_config(settings.shape, tokenizer))
    source = Checkpoint.open(last) if last else source_checkpoint(settings)
    if source.kind == "discodvt":
        raise BadRequest(f"{settings.init}: a DiscoDVT; this stage trains a plain BART, give one of those")
    return _bart(source, {} if last else _changes(settings))


def plan_model(settings: LatentModel, tokenizer: PreTrainedTokenizerBase, last: Path | None) -> DiscoDVT:
    """A DiscoDVT: of the checkpoint `last`, the one of `init`, or a new one around the BART of `init` or `shape`."""
    if last is not None:
        resumed: DiscoDVT = Checkpoint.open(last).load(DiscoDVT)
        return resumed
    sizes = settings.model_dump(include=set(Latent.model_fields)) | {
        "num_relations": len(LABELS),
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
    }
    if settings.shape is not None:
        return DiscoDVT.from_bart(_bart_config(settings.shape, tokenizer), **sizes)
    source = source_checkpoint(settings)
    if source.kind == "bart":
        return DiscoDVT.from_bart(_bart(source, _changes(settings)), **sizes)
    model = trained_model(settings, settings, may_change=("bottleneck", "code_levels"))
    if "code_logit_gain" in settings.model_fields_set:
        model.config.code_logit_gain = settings.code_logit_gain  # of new codes
    if "bottleneck" in settings.model_fields_set:
        kept = model.config.code_levels if settings.bottleneck == model.config.bottleneck else None
        model.change_bottleneck(settings.bottleneck, settings.code_levels or kept)
    return model


def trained_model(settings: Backbone, sizes: Latent, *, may_change: tuple[str, ...] = ()) -> DiscoDVT:
    """The DiscoDVT of `init` as it was trained; a recipe that asks for other codes or sizes is refused."""
    source = source_checkpoint(settings)
    if source.kind == "bart":
        raise BadRequest(f"{settings.init}: a plain BART, which knows no plans; give a trained DiscoDVT")
    model: DiscoDVT = source.load(DiscoDVT, **_changes(settings))
    for name in Latent.model_fields:
        wanted, found = getattr(sizes, name), getattr(model.config, name)
        if name in sizes.model_fields_set and name not in (*may_change, "code_logit_gain") and wanted != found:
            raise BadRequest(
                f"{settings.init}: a checkpoint of another shape: {name} is {found}, the recipe asks for {wanted}"
            )
    return model


def prior_model(model: DiscoDVT, settings: Backbone, *, encoder: str | None, max_codes: int) -> PlanPrior:
    """A prior of the generator's shape: its encoder starts as that of a BART, its decoder from scratch."""
    prior = PlanPrior.beside(model, max_codes=max_codes)
    if encoder is not None:
        start = _bart(Checkpoint.open(encoder).require("bart"), _changes(settings)).get_encoder()
        try:
            prior.encoder.load_state_dict(start.state_dict())
        except RuntimeError:
            raise BadRequest(f"{encoder}: an encoder of another shape than the generator's") from None
    return prior


def source_checkpoint(settings: Backbone) -> Checkpoint:
    """The checkpoint of `init`, which must be a BART or a DiscoDVT."""
    return Checkpoint.open(settings.init).require("bart", "discodvt")


def _bart(checkpoint: Checkpoint, changes: dict[str, Any]) -> BartForConditionalGeneration:
    model: BartForConditionalGeneration = checkpoint.load(BartForConditionalGeneration, **changes)
    return model


def _changes(settings: Backbone) -> dict[str, Any]:
    return {} if settings.dropout is None else {"dropout": settings.dropout}


def _bart_config(shape: BackboneShape, tokenizer: PreTrainedTokenizerBase) -> BartConfig:
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
