"""BART as a backbone: its encoder reads the prompt, its decoder writes the story (the paper's, section 3.2)."""

from typing import Any

from torch import Tensor
from transformers import BartForConditionalGeneration
from transformers.models.bart.modeling_bart import BartEncoder

from discodvt.data.subwords import Symbols
from discodvt.model.backbones.base import Backbone, Prompt
from discodvt.model.configuration import shortened


class EncoderDecoderBackbone(Backbone):
    """Prompts `<s> x </s>`; the decoder reads `<s> y1 .. yM`, the latent added to token embedding and position."""

    @property
    def symbols(self) -> Symbols:
        bos, eos, pad = self.config.bos_token_id, self.config.eos_token_id, self.config.pad_token_id
        return Symbols((bos,), (eos,), self.config.decoder_start_token_id, eos, pad)

    def new_generator(self) -> BartForConditionalGeneration:
        return BartForConditionalGeneration(self.config)

    def new_posterior(self, layers: int | None) -> BartEncoder:
        return BartEncoder(self.config if layers is None else shortened(self.config, layers))

    def copy_posterior(self, generator: Any, posterior: Any) -> None:
        wanted = posterior.state_dict()
        posterior.load_state_dict({name: generator.get_encoder().state_dict()[name] for name in wanted})

    def read(self, posterior: Any, story_ids: Tensor, mask: Tensor) -> Tensor:
        states: Tensor = posterior(input_ids=story_ids, attention_mask=mask).last_hidden_state
        return states

    def decode(self, generator: Any, prompt: Prompt, story_ids: Tensor, latent: Tensor | None, **kwargs: Any) -> Any:
        past = kwargs.get("past_key_values")
        start = 0 if past is None else past.get_seq_length()
        embedded = self.embed(generator, story_ids)
        if latent is not None:
            embedded = embedded + latent[:, start : start + story_ids.shape[1]]
        return generator.model(
            input_ids=prompt.ids, attention_mask=prompt.mask, decoder_inputs_embeds=embedded, **kwargs
        )

    def begin(self, input_ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, int, dict[str, Any]]:
        return input_ids, mask, 1, {}

    def embed(self, generator: Any, ids: Tensor) -> Tensor:
        embedded: Tensor = generator.model.decoder.embed_tokens(ids)
        return embedded

    def head(self, generator: Any) -> tuple[Tensor, Tensor]:
        return generator.lm_head.weight, generator.final_logits_bias[0]

    def logits(self, generator: Any, states: Tensor) -> Tensor:
        logits: Tensor = generator.lm_head(states) + generator.final_logits_bias
        return logits
