"""The sizes of DiscoDVT and of its prior: a backbone's configuration plus the few numbers the paper adds (section 4.2).

Defaults are the paper's. Generation settings never live here: transformers v5 refuses them in a model configuration.
"""

from dataclasses import fields
from typing import Any, ClassVar

from transformers import AutoConfig, BartConfig, PreTrainedConfig
from transformers.configuration_utils import SubConfigSpec

from discodvt.errors import BadRequest
from discodvt.model.bottlenecks import bottleneck_class
from discodvt.model.sizes import PAPER

_NOT_SHAPE = {"transformers_version", "architectures", "dtype", "id2label", "label2id", "problem_type"}
DROPOUTS = ("dropout", "attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout")


class BartBaseConfig(BartConfig):
    """The shape of BART-base, the paper's."""

    d_model: int = 768
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_attention_heads: int = 12
    decoder_attention_heads: int = 12
    encoder_ffn_dim: int = 3072
    decoder_ffn_dim: int = 3072


class WithBackbone(PreTrainedConfig):
    """The configuration of a model around a language model (`backbone_config`), whose vocabulary and kind it has."""

    sub_configs_defaults: ClassVar = {"backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="bart")}

    backbone_config: PreTrainedConfig | dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        self.is_encoder_decoder = bool(getattr(self.backbone, "is_encoder_decoder", False))
        self.tie_word_embeddings = bool(getattr(self.backbone, "tie_word_embeddings", False))

    def to_dict(self) -> dict[str, Any]:
        """Without the precision transformers notes in the backbone when it opens one: it is the whole model's."""
        output: dict[str, Any] = super().to_dict()
        if isinstance(output.get("backbone_config"), dict):
            output["backbone_config"].pop("dtype", None)
        return output

    @property
    def backbone(self) -> Any:
        """The configuration of the language model."""
        return self.backbone_config

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> PreTrainedConfig:
        """What `generate` shapes its caches after."""
        text: PreTrainedConfig = self.backbone.get_text_config(decoder=decoder, encoder=encoder)
        return text

    @property
    def hidden_size(self) -> int:
        return int(self.backbone.hidden_size)

    @property
    def pad_token_id(self) -> int | None:
        pad: int | None = getattr(self.backbone, "pad_token_id", None)
        return pad


class DiscoDVTConfig(WithBackbone):
    """A language model (`backbone_config`) plus the latent: K codes, one for every 2^c tokens.

    Checkpoints made when BART was the only backbone have its sizes beside the latent's; they are read as well.
    """

    model_type = "discodvt"

    backbone_config: PreTrainedConfig | dict[str, Any] | None = None  # BART-base, the paper's, where there is none
    posterior_layers: int | None = None  # layers of the backbone that read stories; None: BART's encoder, else half
    separator_token_id: int | None = None  # SEP between prompt and story of a causal backbone; None: its end symbol
    num_codes: int = PAPER.num_codes
    code_width: int = PAPER.code_width
    conv_layers: int = PAPER.conv_layers
    conv_channels: int = PAPER.conv_channels
    bottleneck: str = PAPER.bottleneck
    code_levels: list[int] | None = None  # of fsq codes
    code_logit_gain: float = PAPER.code_logit_gain
    num_relations: int = PAPER.num_relations
    relation_width: int = PAPER.relation_width
    posterior_scale: float = 1.0  # of the posterior's states, so that logits of codes begin with a common size
    plan_strength: float = 1.0  # what the latent is multiplied by in writing, not in training
    plan_tail: int = 0  # codes' worth of text after the plan without a latent, so that a story can end by itself
    latent_scale: float = 1.0  # of the latent, so that weights of common size make one that suits small embeddings

    def __post_init__(self, **kwargs: Any) -> None:
        problem = bottleneck_class(self.bottleneck).problem(self.num_codes, self.code_levels)
        if problem:
            raise ValueError(problem)
        sizes = ("num_codes", "code_width", "conv_layers", "conv_channels", "num_relations", "relation_width")
        for name in sizes:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.backbone_config is None:
            flat = {name: kwargs.pop(name) for name in _bart_fields() if name in kwargs}
            start = {"decoder_start_token_id": 0, "forced_eos_token_id": None}
            self.backbone_config = BartConfig(**bart_shape(BartBaseConfig()) | start | flat)
        super().__post_init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        return int(self.backbone.vocab_size)

    @property
    def max_position_embeddings(self) -> int:
        return int(self.backbone.max_position_embeddings)

    @property
    def bos_token_id(self) -> int | None:
        bos: int | None = self.backbone.bos_token_id
        return bos

    @property
    def eos_token_id(self) -> int | list[int] | None:
        eos: int | list[int] | None = self.backbone.eos_token_id
        return eos

    @property
    def dropout(self) -> float:
        """The backbone's dropout, under whatever names it has it."""
        return float(next((getattr(self.backbone, name) for name in DROPOUTS if hasattr(self.backbone, name)), 0.0))

    @dropout.setter
    def dropout(self, share: float) -> None:
        names = [name for name in DROPOUTS if hasattr(self.backbone, name)]
        for name in ["dropout"] if "dropout" in names else names:  # BART has more kinds, off by default
            setattr(self.backbone, name, share)

    @property
    def tokens_per_code(self) -> int:
        return int(2**self.conv_layers)

    @property
    def padding_code(self) -> int:
        """The learned symbol that follows every plan; it is no code a posterior or a prior may choose."""
        return self.num_codes

    @classmethod
    def from_backbone_config(cls, backbone: Any, **sizes: Any) -> "DiscoDVTConfig":
        """The shape of a language model and the latent `sizes`; a BART starts with `<s>`, and no end is forced."""
        if isinstance(backbone, BartConfig):
            start = {"decoder_start_token_id": backbone.bos_token_id, "forced_eos_token_id": None}
            backbone = BartConfig(**bart_shape(backbone) | start)
        return cls(backbone_config=backbone, **sizes)


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
    def from_backbone_config(cls, backbone: BartConfig, **sizes: Any) -> "PlanPriorConfig":
        """The shape of a BART."""
        text = {"text_vocab_size": backbone.vocab_size, "text_pad_token_id": backbone.pad_token_id}
        return cls(**bart_shape(backbone) | text | sizes)


class CausalPlanPriorConfig(WithBackbone):
    """A causal language model (`backbone_config`) whose last K + 3 words are codes, then bos, eos and pad of plans."""

    model_type = "discodvt-causal-prior"
    sub_configs_defaults: ClassVar = {"backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="llama")}

    num_codes: int = PAPER.num_codes
    max_codes: int = 64
    text_pad_token_id: int = 0

    @property
    def text_vocab_size(self) -> int:
        """Words of prompts; the codes come after them."""
        return int(self.backbone.vocab_size) - self.num_codes - 3

    @property
    def vocab_size(self) -> int:
        return self.num_codes + 3

    @property
    def bos_token_id(self) -> int:
        return self.num_codes

    @property
    def eos_token_id(self) -> int:
        return self.num_codes + 1

    @property
    def pad_token_id(self) -> int:
        return self.num_codes + 2

    @classmethod
    def from_backbone_config(
        cls, backbone: Any, *, num_codes: int, max_codes: int, layers: int
    ) -> "CausalPlanPriorConfig":
        """The first layers of a causal language model, with more words."""
        shape = shortened(backbone, layers)
        shape.vocab_size += num_codes + 3
        eos = backbone.eos_token_id[0] if isinstance(backbone.eos_token_id, list) else backbone.eos_token_id
        text_pad = eos if backbone.pad_token_id is None else backbone.pad_token_id
        return cls(backbone_config=shape, num_codes=num_codes, max_codes=max_codes, text_pad_token_id=text_pad)


def shortened(config: Any, layers: int) -> Any:
    """The same shape with the first `layers` layers."""
    short = type(config)(**config.to_dict())
    short.num_hidden_layers = layers
    try:
        if getattr(short, "layer_types", None):
            short.layer_types = short.layer_types[:layers]
    except AttributeError:  # made from other settings
        raise BadRequest(f"a {config.model_type} model: its first layers make no model; give another") from None
    return short


_TOKEN_IDS = {"bos_token_id", "eos_token_id", "decoder_start_token_id", "forced_eos_token_id"}


def _bart_fields() -> set[str]:
    return {field.name for field in fields(BartConfig)} - _NOT_SHAPE


def bart_shape(config: BartConfig) -> dict[str, Any]:
    """The fields of a BART configuration that shape a model, without the generation settings old checkpoints carry."""
    kept = _bart_fields() - {"decoder_start_token_id", "forced_eos_token_id"}
    if isinstance(config, PlanPriorConfig):
        kept -= _TOKEN_IDS | {"vocab_size", "pad_token_id"}
    return {name: getattr(config, name) for name in sorted(kept)}
