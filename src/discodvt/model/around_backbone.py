"""What models around a language model have in common: its symbols and its embeddings are theirs."""

from torch import nn
from transformers import GenerationMixin, PreTrainedModel

from discodvt.data.subwords import Symbols
from discodvt.model.backbones import Backbone


class AroundBackbone(PreTrainedModel, GenerationMixin):
    """A `generator` (the language model) and the `backbone` that says how to run it."""

    backbone: Backbone
    generator: PreTrainedModel
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
