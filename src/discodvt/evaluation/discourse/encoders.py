"""Where a classifier's encoder and its subwords come from.

`small` grows one from scratch, with a BPE of its own; a DiscoDVT gives its posterior; any other checkpoint (a directory
or Hub id, safetensors only) its encoder.
"""

from collections.abc import Iterable

import torch
from transformers import BartConfig, PreTrainedConfig, PreTrainedTokenizerBase

from discodvt.data.subwords import open_tokenizer, train_tokenizer
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import Reading, RelationClassifier, RelationClassifierConfig
from discodvt.evaluation.reader import open_reader
from discodvt.model import DiscoDVTConfig

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
    reader = open_reader(source)
    reading: Reading = "twin" if reader.part_of == DiscoDVTConfig.model_type else "pair"
    tokenizer = open_tokenizer(source)
    _check(source, reader.shape, tokenizer, argument_tokens + 2 if reading == "twin" else 2 * argument_tokens + 3)
    config = RelationClassifierConfig.around(reader.shape, reading=reading, argument_tokens=argument_tokens)
    model = RelationClassifier(config)
    model.encoder.load_state_dict(reader.model.state_dict())
    return model, tokenizer


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
