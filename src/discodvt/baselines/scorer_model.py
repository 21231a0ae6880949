"""A rescorer as a checkpoint: the reader of a backbone, a masked mean, two logits."""

from typing import Any, ClassVar

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.configuration_utils import SubConfigSpec

from discodvt.baselines.scorers import PlotScorer
from discodvt.model.backbones import Backbone, new_backbone


class ScorerConfig(PreTrainedConfig):
    model_type = "discodvt-scorer"
    sub_configs_defaults: ClassVar = {"backbone_config": SubConfigSpec(config_class=AutoConfig, model_type="bart")}

    backbone_config: PreTrainedConfig | dict[str, Any] | None = None
    layers: int | None = None  # of the backbone; None: as many as its reader has
    head_dropout: float = 0.1

    def to_dict(self) -> dict[str, Any]:
        """Without the precision transformers notes in the backbone when it opens one."""
        output: dict[str, Any] = super().to_dict()
        if isinstance(output.get("backbone_config"), dict):
            output["backbone_config"].pop("dtype", None)
        return output

    @property
    def backbone(self) -> Any:
        """The configuration of the language model."""
        return self.backbone_config

    @property
    def pad_token_id(self) -> int | None:
        pad: int | None = getattr(self.backbone_config, "pad_token_id", None)
        return pad


class _Reader(nn.Module):
    """`encoder(ids, mask)` over the seam of backbones."""

    def __init__(self, backbone: Backbone, layers: int | None) -> None:
        super().__init__()
        self.backbone, self.encoder = backbone, backbone.new_posterior(layers)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.backbone.read(self.encoder, input_ids, attention_mask)


class ScorerModel(PreTrainedModel):
    """A `PlotScorer` that `from_pretrained` opens."""

    config: ScorerConfig
    config_class = ScorerConfig
    _supports_sdpa = True

    def __init__(self, config: ScorerConfig) -> None:
        super().__init__(config)
        backbone = config.backbone
        reader = _Reader(new_backbone(backbone), config.layers)
        self.scorer = PlotScorer(reader, int(backbone.hidden_size), dropout=config.head_dropout)
        self.post_init()

    @classmethod
    def from_backbone(cls, language_model: PreTrainedModel, **sizes: Any) -> "ScorerModel":
        """A new scorer whose reader starts as that of a language model."""
        model = cls(ScorerConfig(backbone_config=_reading(language_model.config), **sizes))
        reader: Any = model.scorer.encoder
        reader.backbone.copy_posterior(language_model, reader.encoder)
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """The head keeps PyTorch's initialisation; the reader sees to its own."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids and mask [B, T] to logits [B, 2]."""
        logits: Tensor = self.scorer(input_ids, attention_mask)
        return logits


def _reading(config: Any) -> Any:
    """A backbone's configuration without the decoder that a scorer has not."""
    if not config.is_encoder_decoder:
        return config
    return type(config)(**config.to_dict() | {"decoder_layers": 0})


AutoConfig.register(ScorerConfig.model_type, ScorerConfig, exist_ok=True)
AutoModel.register(ScorerConfig, ScorerModel, exist_ok=True)
