"""Where a stage's model comes from: a checkpoint (local or Hub, safetensors only) or a shape.

A checkpoint is a language model, BART or causal, or a DiscoDVT around one.
"""

from pathlib import Path
from typing import Any

from transformers import AutoConfig, BartConfig, BartForConditionalGeneration, PreTrainedModel, PreTrainedTokenizerBase

from discodvt.checkpoints import Checkpoint
from discodvt.config import Backbone, Latent, LatentModel, NewBackbone
from discodvt.data.subwords import Symbols, bart_symbols
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.backbones import load_language_model, new_backbone
from discodvt.model.configuration import DROPOUTS
from discodvt.model.prior import PlanPrior, Prior, new_prior


def story_symbols(settings: Backbone, tokenizer: PreTrainedTokenizerBase, last: Path | None) -> Symbols:
    """The symbols around prompts and stories, of a model that is yet to be opened."""
    if last is None and settings.init is None:
        return bart_symbols(tokenizer)
    source = Checkpoint.open(last or settings.init)
    if source.kind == "discodvt-prior" or not source.causal:
        return bart_symbols(tokenizer)
    config: Any = AutoConfig.from_pretrained(source.directory)
    separator = getattr(config, "separator_token_id", tokenizer.sep_token_id)
    return new_backbone(config.backbone if source.kind.startswith("discodvt") else config, separator=separator).symbols


def language_model(settings: NewBackbone, tokenizer: PreTrainedTokenizerBase, last: Path | None) -> PreTrainedModel:
    """A plain language model: that of the checkpoint `last`, the one of `init`, or a new one of `shape`."""
    if last is not None:
        return load_language_model(Checkpoint.open(last), merged=False)
    if settings.shape is not None:
        return BartForConditionalGeneration(
            bart_config(tokenizer, **(settings.shape.model_dump() | _changes(settings)))
        )
    source = source_checkpoint(settings)
    if source.kind == "discodvt":
        raise BadRequest(f"{settings.init}: a DiscoDVT; this stage trains a plain language model, give one of those")
    model = load_language_model(source, **_language_model_changes(settings, source))
    if source.causal:
        new_backbone(model.config, separator=tokenizer.sep_token_id).check(model)
    return type(model)(model.config) if settings.random_init else model


def plan_model(settings: LatentModel, tokenizer: PreTrainedTokenizerBase, last: Path | None) -> DiscoDVT:
    """A DiscoDVT: of the checkpoint `last`, the one of `init`, or a new one around the language model of `init`."""
    if last is not None:
        resumed: DiscoDVT = Checkpoint.open(last).load(DiscoDVT, merged=False)
        return resumed
    if settings.init is None or source_checkpoint(settings).kind != "discodvt":
        model = language_model(settings, tokenizer, None)
        sizes = settings.model_dump(include=set(Latent.model_fields)) | {
            "num_relations": len(LABELS),
            "id2label": dict(enumerate(LABELS)),
            "label2id": {label: number for number, label in enumerate(LABELS)},
        }
        if not model.config.is_encoder_decoder:
            sizes["separator_token_id"] = tokenizer.sep_token_id
        return DiscoDVT.from_backbone(model, **sizes)
    if settings.random_init:
        raise BadRequest(
            f"model.random_init: {settings.init} is a DiscoDVT, random weights need a language model's shape"
        )
    trained = trained_model(settings, settings, may_change=("bottleneck", "code_levels"))
    if "code_logit_gain" in settings.model_fields_set:
        trained.config.code_logit_gain = settings.code_logit_gain  # of new codes
    if "bottleneck" in settings.model_fields_set:
        kept = trained.config.code_levels if settings.bottleneck == trained.config.bottleneck else None
        trained.change_bottleneck(settings.bottleneck, settings.code_levels or kept)
    return trained


def trained_model(settings: Backbone, sizes: Latent, *, may_change: tuple[str, ...] = ()) -> DiscoDVT:
    """The DiscoDVT of `init` as it was trained; a recipe that asks for other codes or sizes is refused."""
    source = source_checkpoint(settings)
    if source.kind != "discodvt":
        raise BadRequest(f"{settings.init}: a plain {source.kind}, which knows no plans; give a trained DiscoDVT")
    model: DiscoDVT = source.load(DiscoDVT, **_changes(settings))
    for name in Latent.model_fields:
        wanted, found = getattr(sizes, name), getattr(model.config, name)
        if name in sizes.model_fields_set and name not in (*may_change, "code_logit_gain") and wanted != found:
            raise BadRequest(
                f"{settings.init}: a checkpoint of another shape: {name} is {found}, the recipe asks for {wanted}"
            )
    return model


def prior_model(
    model: DiscoDVT,
    settings: Backbone,
    *,
    layers: int | None,
    max_codes: int,
    encoder: str | None = None,
    source: str | Path | None = None,
) -> Prior:
    """A prior of the generator's kind; `encoder` names a BART whose encoder starts that of a BART-shaped one.

    Where a prior was trained beside the codes of the checkpoint `source` (`loss.prior`), it goes on.
    """
    prior = new_prior(model, max_codes=max_codes, layers=layers)
    if source is not None and Checkpoint.open(source).kind == "discodvt":
        _go_on(prior, Checkpoint.open(source))
    if encoder is not None:
        if not isinstance(prior, PlanPrior):
            raise BadRequest("model.prior_encoder: for a BART-shaped prior; beside a causal model leave it out")
        start: Any = load_language_model(Checkpoint.open(encoder).require("bart"), **_changes(settings))
        try:
            prior.encoder.load_state_dict(start.get_encoder().state_dict())
        except RuntimeError:
            raise BadRequest(f"{encoder}: an encoder of another shape than the generator's") from None
    return prior


def _go_on(prior: Prior, source: Checkpoint) -> None:
    """Give a prior the weights it has in a checkpoint: below `prior.`, or in the directory of that name."""
    weights, state = source.weights().under("prior."), prior.state_dict()
    if not any(True for _ in weights) and source.prior is not None:
        weights = source.prior.weights()
    found = {name: weights[name] for name in weights if name in state and weights.shape(name) == state[name].shape}
    if found:
        prior.load_state_dict(state | found)


def source_checkpoint(settings: Backbone) -> Checkpoint:
    """The checkpoint of `init`: a DiscoDVT or a language model."""
    source = Checkpoint.open(settings.init)
    if source.kind.endswith("prior"):
        raise BadRequest(f"{source.directory}: a {source.kind} checkpoint; give a DiscoDVT or a language model")
    if source.causal and source.kind != "discodvt" and not source.writes_text:
        raise BadRequest(
            f"{source.directory}: a {source.kind} checkpoint, which writes no text; give a BART or causal model"
        )
    return source


def _language_model_changes(settings: Backbone, source: Checkpoint) -> dict[str, Any]:
    """Dropout under the names that this kind of model has for it."""
    if settings.dropout is None or not source.causal:
        return _changes(settings)
    names = [name for name in DROPOUTS if name in source.config]
    if not names:
        raise BadRequest(f"model.dropout: a {source.kind} model has no dropout; leave it out")
    return dict.fromkeys(names, settings.dropout)


def _changes(settings: Backbone) -> dict[str, Any]:
    return {} if settings.dropout is None else {"dropout": settings.dropout}


def bart_config(
    tokenizer: PreTrainedTokenizerBase,
    *,
    width: int,
    encoder_layers: int,
    decoder_layers: int,
    heads: int,
    ffn_width: int,
    positions: int,
    **more: Any,
) -> BartConfig:
    """The configuration of a BART from scratch (`BackboneShape`), for the subwords of a tokenizer."""
    return BartConfig(
        vocab_size=len(tokenizer),
        d_model=width,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn_width,
        decoder_ffn_dim=ffn_width,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
        **more,
    )
