"""Where a classifier's encoder and its subwords come from.

`small` grows one from scratch, with a BPE of its own; a DiscoDVT gives its posterior; any other checkpoint (a directory
or Hub id, safetensors only) its encoder.
"""

from collections.abc import Iterable

import torch
from transformers import AutoConfig, AutoModel, BartConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from discodvt.data.subwords import open_tokenizer, train_tokenizer
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import Reading, RelationClassifier, RelationClassifierConfig, encoder_of
from discodvt.model import DiscoDVT, DiscoDVTConfig
from discodvt.model.configuration import bart_shape
from discodvt.training.weights import check_source

SMALL = "small"
SMALL_VOCABULARY = 8192


def build_classifier(
    source: str, texts: Iterable[str], *, argument_tokens: int, seed: int
) -> tuple[RelationClassifier, PreTrainedTokenizerBase]:
    """A classifier around the encoder of `source`, its head untrained; `texts` are for the subwords of `small`."""
    torch.manual_seed(seed)
    if source == SMALL:
        tokenizer = train_tokenizer(texts, SMALL_VOCABULARY)
        small = _small(tokenizer, positions=argument_tokens + 2)
        config = RelationClassifierConfig.around(small, reading="twin", argument_tokens=argument_tokens)
        return RelationClassifier(config), tokenizer
    check_source(source)
    try:
        encoder, shape, reading = _open(source)
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"{source}: no encoder could be opened ({first}); give a checkpoint, or `{SMALL}`") from None
    tokenizer = open_tokenizer(source)
    _check(source, shape, tokenizer, argument_tokens + 2 if reading == "twin" else 2 * argument_tokens + 3)
    model = RelationClassifier(RelationClassifierConfig.around(shape, reading=reading, argument_tokens=argument_tokens))
    model.encoder.load_state_dict(encoder.state_dict())
    return model, tokenizer


def _open(source: str) -> tuple[PreTrainedModel, PreTrainedConfig, Reading]:
    """The encoder of a checkpoint with its weights, its shape, and how it reads pairs."""
    config = AutoConfig.from_pretrained(source)
    if isinstance(config, DiscoDVTConfig):
        model = DiscoDVT.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        return model.posterior, BartConfig(**bart_shape(config)), "twin"
    opened = AutoModel.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
    return encoder_of(opened), opened.config, "pair"


def _check(source: str, shape: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, needed: int) -> None:
    """Refuse an encoder that cannot read pairs of this length."""
    positions = getattr(shape, "max_position_embeddings", None)
    if positions is not None and needed > positions:
        raise BadRequest(f"{source}: has {positions} positions, {needed} are needed; set --argument-tokens lower")
    if None in (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id):
        raise BadRequest(f"{source}: its tokenizer lacks a start, separating or padding token; give another encoder")


def _small(tokenizer: PreTrainedTokenizerBase, *, positions: int) -> BartConfig:
    """Two layers of width 128: what one core trains in minutes. A decoder is named, but no part of the classifier."""
    return BartConfig(
        vocab_size=len(tokenizer),
        d_model=128,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
    )
