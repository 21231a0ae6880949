"""A rescorer as a checkpoint: the reader of a backbone, a masked mean, two logits."""

from typing import Any

from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from discodvt.baselines.scorers import PlotScorer
from discodvt.model.backbones import Backbone, new_backbone
from discodvt.model.configuration import WithBackbone


class ScorerConfig(WithBackbone):
    """A language model (`backbone_config`), of which the scorer has the reader."""

    model_type = "discodvt-scorer"

    layers: int | None = None  # of the backbone; None: as many as its reader has
    head_dropout: float = 0.1


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
