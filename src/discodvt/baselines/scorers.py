"""A rescorer: reads prompt and plot so far, says how likely the plot is a real one (Aristotelian Rescoring).

A fine-tunes RoBERTa-large; here it is the reader of the backbone that the writers have grown from, a masked mean and
two logits. `ScorerModel` is the checkpoint of one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoConfig, AutoModel, PreTrainedModel

from discodvt.model.backbones import Backbone, masked_mean, new_backbone
from discodvt.model.configuration import WithBackbone

CHANGED, REAL = 0, 1  # the two labels


class PlotScorer(nn.Module):
    """Encoder, masked mean, two logits. `encoder(input_ids, attention_mask)` returns states [B, T, D]."""

    def __init__(self, encoder: nn.Module, width: int, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(width, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Ids [B, T] and mask [B, T] to logits [B, 2] of `CHANGED` and `REAL`."""
        states = self.encoder(input_ids, attention_mask)
        logits: Tensor = self.head(self.dropout(masked_mean(states, attention_mask)))
        return logits

    def log_real(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """ln p(real) [B]."""
        logits: Tensor = self(input_ids, attention_mask)
        return logits.float().log_softmax(-1)[:, REAL]


def scorer_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum of cross entropies: logits [B, 2], labels [B]."""
    return F.cross_entropy(logits.float(), labels, reduction="sum")


def scorer_input(prompt: Sequence[int], plot: Sequence[int], *, longest: int) -> list[int]:
    """Ids of prompt and plot; where they are too many, the prompt and the plot's last tokens (A drops just those)."""
    room = longest - len(prompt)
    return [*prompt[:longest], *plot[max(0, len(plot) - room) :]] if room > 0 else list(prompt[:longest])


def rescore_with(
    scorers: Sequence[PlotScorer], prompts: Sequence[Sequence[int]], *, longest: int, padding: int, skip: int = 1
) -> Callable[[Tensor], Tensor]:
    """The `Rescore` of `TokenRescoring` and of best-of-n: plots [N, T], whose first `skip` ids are no plot (`<s>`).

    N is a multiple of the number of prompts, candidates of one prompt side by side.
    """

    @torch.no_grad()
    def rescore(plots: Tensor) -> Tensor:
        each = len(plots) // len(prompts)
        rows = [
            scorer_input(
                prompts[number // each], [token for token in plot[skip:].tolist() if token != padding], longest=longest
            )
            for number, plot in enumerate(plots)
        ]
        ids = nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=padding)
        mask = nn.utils.rnn.pad_sequence([torch.ones(len(row), dtype=torch.long) for row in rows], batch_first=True)
        ids, mask = ids.to(plots.device), mask.to(plots.device)
        return torch.stack([scorer.log_real(ids, mask) for scorer in scorers], dim=-1)

    return rescore


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
