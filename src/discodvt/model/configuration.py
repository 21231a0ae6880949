"""The sizes of DiscoDVT and of its prior: a BART configuration plus the few numbers the paper adds (section 4.2).

Defaults are the paper's. Generation settings never live here: transformers v5 refuses them in a model configuration.
"""

from dataclasses import fields
from typing import Any

from transformers import BartConfig

from discodvt.model.bottlenecks import bottleneck_class
from discodvt.model.sizes import PAPER

_NOT_SHAPE = {"transformers_version", "architectures", "dtype", "id2label", "label2id", "problem_type"}


class BartBaseConfig(BartConfig):
    """The shape of BART-base, the paper's."""

    d_model: int = 768
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 12
    decoder_attention_heads: int = 12
    encoder_ffn_dim: int = 3072
    decoder_ffn_dim: int = 3072


class DiscoDVTConfig(BartBaseConfig):
    """A BART configuration plus the latent: K codes, one for every 2^c tokens."""

    model_type = "discodvt"

    decoder_start_token_id: int = 0
    forced_eos_token_id: int | None = None
    num_codes: int = PAPER.num_codes
    code_width: int = PAPER.code_width
    conv_layers: int = PAPER.conv_layers
    conv_channels: int = PAPER.conv_channels
    bottleneck: str = PAPER.bottleneck
    code_logit_gain: float = PAPER.code_logit_gain
    num_relations: int = PAPER.num_relations
    relation_width: int = PAPER.relation_width

    def __post_init__(self, **kwargs: Any) -> None:
        problem = bottleneck_class(self.bottleneck).problem(self.num_codes)
        if problem:
            raise ValueError(problem)
        sizes = ("num_codes", "code_width", "conv_layers", "conv_channels", "num_relations", "relation_width")
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        super().__post_init__(**kwargs)

    @property
    def tokens_per_code(self) -> int:
        return int(2**self.conv_layers)

    @property
    def padding_code(self) -> int:
        """The learned symbol that follows every plan; it is no code a posterior or a prior may choose."""
        return self.num_codes

    @classmethod
    def from_bart_config(cls, bart: BartConfig, **sizes: Any) -> "DiscoDVTConfig":
        """The shape of `bart`, a decoder that starts with `<s>` and is not forced to end, and the latent `sizes`."""
        start = {"decoder_start_token_id": bart.bos_token_id, "forced_eos_token_id": None}
        return cls(**bart_shape(bart) | start | sizes)


class PlanPriorConfig(BartBaseConfig):
    """A BART shape whose decoder writes codes: `vocab_size` is K + 3 (codes, then bos, eos, pad).

    The encoder reads text, which has a vocabulary of its own.
    """

    model_type = "discodvt-prior"

    bos_token_id: int = PAPER.num_codes
    eos_token_id: int = PAPER.num_codes + 1
    pad_token_id: int = PAPER.num_codes + 2
    num_codes: int = PAPER.num_codes
    max_codes: int = 64
    text_vocab_size: int = 50265
    text_pad_token_id: int = 1

    def __post_init__(self, **kwargs: Any) -> None:
        self.vocab_size = self.num_codes + 3
        self.bos_token_id = self.decoder_start_token_id = self.num_codes
        self.eos_token_id = self.num_codes + 1
        self.pad_token_id = self.num_codes + 2
        self.forced_eos_token_id = None
        super().__post_init__(**kwargs)

    def for_text(self) -> BartConfig:
        """The BART configuration of the encoder."""
        shape = bart_shape(self) | {"vocab_size": self.text_vocab_size, "pad_token_id": self.text_pad_token_id}
        return BartConfig(**shape, bos_token_id=0, eos_token_id=2)

    @classmethod
    def from_bart_config(cls, bart: BartConfig, **sizes: Any) -> "PlanPriorConfig":
        text = {"text_vocab_size": bart.vocab_size, "text_pad_token_id": bart.pad_token_id}
        return cls(**bart_shape(bart) | text | sizes)


_TOKEN_IDS = {"bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id"}


def bart_shape(config: BartConfig) -> dict[str, Any]:
    """The fields of a BART configuration that shape a model, without the generation settings old checkpoints carry."""
    kept = {field.name for field in fields(BartConfig)} - _NOT_SHAPE
    if isinstance(config, PlanPriorConfig):
        kept -= _TOKEN_IDS | {"vocab_size", "pad_token_id"}
    elif not isinstance(config, DiscoDVTConfig):
        kept -= {"decoder_start_token_id", "forced_eos_token_id"}
    return {name: getattr(config, name) for name in sorted(kept)}
