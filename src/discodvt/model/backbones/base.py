"""What DiscoDVT needs of a language model: the seam between the latent and any backbone.

A backbone embeds tokens, runs a Hugging Face model over a prompt and a story with a latent added to the input
embeddings at the positions that predict the story (section 3.2.3), turns its states into losses and logits, and reads a
story with full attention for the posterior. It holds no weights: the model is always handed in, so that it may be
wrapped (LoRA, DDP) or exchanged. B batch, N prompt tokens, T story tokens, D width, V vocabulary.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig

from discodvt.data.subwords import Symbols
from discodvt.model.token_loss import summed_token_loss


class Prompt(NamedTuple):
    """Prompts of a batch [B, N]; ids may be missing where an encoder has read them already."""

    ids: Tensor | None
    mask: Tensor | None


class Backbone(ABC):
    """One kind of language model. `generator` is the Hugging Face model, `posterior` what reads stories beside it."""

    def __init__(self, config: PreTrainedConfig) -> None:
        """`config` is the backbone's own configuration, not DiscoDVT's."""
        self.config: Any = config

    @property
    @abstractmethod
    def symbols(self) -> Symbols: ...

    @abstractmethod
    def new_generator(self) -> Any:
        """A language model of this shape, untrained."""

    @abstractmethod
    def new_posterior(self, layers: int | None) -> Any:
        """What reads stories: `layers` of the model (None: as many as its kind has by default), untrained."""

    @abstractmethod
    def copy_posterior(self, generator: Any, posterior: Any) -> None:
        """Start the posterior as a copy of the part of the model it was shaped after."""

    @abstractmethod
    def read(self, posterior: Any, story_ids: Tensor, mask: Tensor) -> Tensor:
        """Story ids and mask [B, T], right-padded, to states [B, T, D] that see the whole story."""

    @abstractmethod
    def decode(self, generator: Any, prompt: Prompt, story_ids: Tensor, latent: Tensor | None, **kwargs: Any) -> Any:
        """Outputs whose `last_hidden_state` [B, T, D] predicts y1 .. yM and the end; all inputs are right-padded.

        `latent` [B, T', D] covers story positions from 0; None is a latent of zeros.
        """

    def run(self, generator: Any, ids: Tensor, place: Tensor, latent: Tensor | None, **kwargs: Any) -> Any:
        """Part of a sequence [B, S], whose story positions are `place` [B, S] (negative: none); causal models only."""
        raise ValueError("an encoder-decoder needs decoder_input_ids: the start symbol and the story so far")

    @abstractmethod
    def begin(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, int, dict[str, Any]]:
        """What `generate` starts from: ids and mask, how many symbols stand before the first new one, more arguments.

        Prompts may be padded on either side.
        """

    def embed(self, generator: Any, ids: Tensor) -> Tensor:
        """Tokens [B, T] to input embeddings [B, T, D], scaled as the model has it."""
        embedded: Tensor = generator.get_input_embeddings()(ids)
        return embedded

    def embed_with(self, generator: Any, ids: Tensor, place: Tensor, latent: Tensor | None) -> Tensor:
        """Tokens [B, S] to embeddings [B, S, D], the latent added; story positions `place`, negative: none."""
        embedded = self.embed(generator, ids)
        if latent is None:
            return embedded
        inside = (place >= 0) & (place < latent.shape[1])
        index = place.clamp(0, latent.shape[1] - 1).unsqueeze(-1).expand(-1, -1, latent.shape[-1])
        return embedded + (latent.gather(1, index) * inside.unsqueeze(-1)).to(embedded.dtype)

    def embedding_scale(self, generator: Any) -> float:
        """Standard deviation of the input embeddings."""
        rows = torch.arange(min(4096, generator.get_input_embeddings().weight.shape[0]))
        return float(self.embed(generator, rows[None].to(generator.device)).detach().std())

    def head(self, generator: Any) -> tuple[Tensor, Tensor]:
        """Weight [V, D] and bias [V] that turn states into logits."""
        layer: nn.Linear = generator.get_output_embeddings()
        return layer.weight, layer.weight.new_zeros(layer.weight.shape[0]) if layer.bias is None else layer.bias

    def logits(self, generator: Any, states: Tensor) -> Tensor:
        """States [B, T, D] to logits [B, T, V]."""
        return F.linear(states, *self.head(generator))

    def capped(self, logits: Tensor) -> Tensor:
        """Logits as the model bounds them; most do not."""
        return logits

    def check(self, generator: Any) -> None:
        """Refuse a language model that cannot be trained as we do; BART can."""
        return

    def reads_both_ways(self, posterior: Any) -> bool:
        """Whether what comes later in a story changes what is read of its beginning."""
        return True

    def summed_loss(self, generator: Any, states: Tensor, labels: Tensor) -> Tensor:
        """Sum of -log p(label) from states [B, T, D], labels [B, T] with -100 where nothing is predicted."""
        real = labels != -100
        return summed_token_loss(states[real], *self.head(generator), labels[real])


def masked_mean(states: Tensor, mask: Tensor) -> Tensor:
    """Mean [B, D] of states [B, T, D] over the positions where mask [B, T] is true; zeros where it nowhere is."""
    weights = mask.to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)
