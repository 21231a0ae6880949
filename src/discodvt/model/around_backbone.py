"""What models around a language model have in common: its symbols and its embeddings, and a posterior beside it."""

from typing import Any

import torch
from torch import nn
from transformers import GenerationMixin, PreTrainedModel

from discodvt.data.subwords import Symbols
from discodvt.model.backbones import Backbone


class AroundBackbone(PreTrainedModel, GenerationMixin):
    """A `generator` (the language model), a `posterior` that reads stories, and the `backbone` that knows how."""

    backbone: Backbone
    generator: PreTrainedModel
    posterior: PreTrainedModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _keys_to_ignore_on_load_missing = [r"generator\.final_logits_bias"]  # noqa: RUF012 (the type transformers declares)

    @property
    def symbols(self) -> Symbols:
        """The symbols around prompts and stories."""
        return self.backbone.symbols

    def get_input_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.generator.get_input_embeddings()
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.generator.get_output_embeddings()
        return head

    @torch.no_grad()
    def fitted_scale(self) -> float:
        """What brings the posterior's states to size 1, which differs between backbones.

        Where it ends in a norm of large weights, codes would be certain before they have learned anything.
        """
        shape: Any = self.config
        drawn = torch.randint(shape.backbone.vocab_size, (4, 64), generator=torch.Generator().manual_seed(0))
        ids, was_training = drawn.to(self.device), self.posterior.training
        states = self.backbone.read(self.posterior.eval(), ids, torch.ones_like(ids))
        self.posterior.train(was_training)
        return 1 / float(states.float().square().mean().sqrt().clamp(min=1e-6))
