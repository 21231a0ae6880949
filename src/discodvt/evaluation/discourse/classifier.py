"""The relation classifier: an encoder reads two arguments, a linear layer names the marker between them (section 4.6).

Features are those of InferSent (Conneau et al. 2017): [u; v; |u - v|; u * v] of the two arguments' vectors, each the
mean of its tokens' states. The encoder reads both as one sequence (`pair`: pretrained ones, as the paper's BERT) or
each alone (`twin`: better for small ones from scratch).
"""

from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from discodvt.data.subwords import open_tokenizer
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.reader import reader_of
from discodvt.training.weights import check_source

Reading: TypeAlias = Literal["pair", "twin"]


class RelationClassifierConfig(PreTrainedConfig):
    """The encoder's own configuration, how it reads a pair, and how many subwords of each argument."""

    model_type = "discodvt-relations"

    encoder: dict[str, Any] | None = None
    reading: str = "pair"
    argument_tokens: int = 64

    @classmethod
    def around(cls, encoder: PreTrainedConfig, *, reading: Reading, argument_tokens: int) -> "RelationClassifierConfig":
        """The configuration of a classifier of the ten markers with such an encoder."""
        return cls(
            encoder=encoder.to_dict(),
            reading=reading,
            argument_tokens=argument_tokens,
            id2label=dict(enumerate(MARKERS)),
            label2id={marker: place for place, marker in enumerate(MARKERS)},
        )


AutoConfig.register(RelationClassifierConfig.model_type, RelationClassifierConfig, exist_ok=True)


class RelationClassifier(PreTrainedModel):
    """Two arguments in, a logit for each marker out."""

    config: RelationClassifierConfig
    config_class = RelationClassifierConfig
    _supports_sdpa = True

    def __init__(self, config: RelationClassifierConfig) -> None:
        super().__init__(config)
        shape: Any = AutoConfig.for_model(**(config.encoder or {}))
        self.encoder = reader_of(AutoModel.from_config(shape))
        self.head = nn.Linear(4 * shape.hidden_size, len(MARKERS))
        self.typed = config.reading == "pair" and getattr(shape, "type_vocab_size", 0) > 1
        self.post_init()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, sides: Tensor) -> Tensor:
        """Logits [B, markers]. `sides` is 1 on the tokens of Arg1, 2 on those of Arg2; all three are [R, T].

        A pair is one row; of twins the first B rows are the Arg1s, the second B the Arg2s.
        """
        types = {"token_type_ids": (sides == 2).long()} if self.typed else {}
        outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types)
        u, v = (_mean(outputs.last_hidden_state, sides == side) for side in (1, 2))  # [R, D] each
        if self.config.reading == "twin":
            half = len(sides) // 2
            u, v = u[:half], v[half:]
        logits: Tensor = self.head(torch.cat([u, v, (u - v).abs(), u * v], dim=-1))
        return logits

    def _init_weights(self, module: nn.Module) -> None:
        """The head keeps PyTorch's own initialisation; the encoder is a model of its own and sees to its."""
        if module is self.head:
            self.head.reset_parameters()


def open_classifier(directory: Path) -> tuple[RelationClassifier, PreTrainedTokenizerBase]:
    """A classifier as `discodvt discourse fit` leaves it, ready to judge; one of other markers is refused."""
    check_source(str(directory))
    try:
        config = RelationClassifierConfig.from_pretrained(directory)
        labels = tuple((config.id2label or {}).values())
        if labels != MARKERS:
            found = ", ".join(map(str, labels))
            raise BadRequest(f"{directory}: a classifier of {found}; expected {', '.join(MARKERS)}; fit it again")
        model = RelationClassifier.from_pretrained(directory, dtype=torch.float32, use_safetensors=True)
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"{directory}: no relation classifier could be opened ({first}); fit it again") from None
    model.eval()
    return model, open_tokenizer(directory)


def _mean(states: Tensor, where: Tensor) -> Tensor:
    """Mean of states [R, T, D] over the tokens `where` [R, T]; zero for a row without any."""
    weights = where.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
