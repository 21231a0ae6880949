"""The prior: prompt in, plan out, code by code (section 3.4): a BART shape whose decoder has a vocabulary of codes."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.models.bart.modeling_bart import BartDecoder, BartEncoder

from discodvt.model.backbones import Symbols
from discodvt.model.configuration import PlanPriorConfig
from discodvt.model.generation import keep_settings, settle_lengths


class PlanPrior(PreTrainedModel, GenerationMixin):
    """Encoder of prompts, decoder of codes; K is bos, K + 1 eos, K + 2 pad, and neither bos nor pad can be drawn."""

    config: PlanPriorConfig
    config_class = PlanPriorConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _no_split_modules = ["BartEncoderLayer", "BartDecoderLayer"]  # noqa: RUF012 (the type transformers declares)
    _tied_weights_keys = {"head.weight": "decoder.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: PlanPriorConfig) -> None:
        super().__init__(config)
        self.encoder = BartEncoder(config.for_text())
        self.decoder = BartDecoder(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        self.post_init()
        symbols = Symbols((), (), config.bos_token_id, config.eos_token_id, config.pad_token_id)
        keep_settings(self.generation_config, symbols)

    @classmethod
    def beside(cls, model: PreTrainedModel, *, max_codes: int) -> "PlanPrior":
        """A new prior for the plans of a DiscoDVT: BART's encoder is copied, of a causal model the token embeddings."""
        shape: Any = model.config
        prior = cls(
            PlanPriorConfig.from_backbone_config(shape.backbone, num_codes=shape.num_codes, max_codes=max_codes)
        )
        if shape.is_encoder_decoder:
            prior.encoder.load_state_dict(model.get_encoder().state_dict())
        else:
            with torch.no_grad():
                prior.encoder.embed_tokens.weight.copy_(model.get_input_embeddings().get_parameter("weight"))
        return prior

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.embed_tokens

    @torch.no_grad()
    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """`GenerationMixin.generate`: bos, at most `max_codes` codes and eos."""
        settle_lengths(self.generation_config, kwargs, given=1, room=self.config.max_codes + 1)
        return super().generate(*args, **kwargs)  # type: ignore[misc]

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Prompt ids [B, N] and codes [B, L] to logits [B, L, K + 3] of the next code."""
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids=input_ids, attention_mask=attention_mask)
        states = self.decoder(
            input_ids=decoder_input_ids,
            encoder_hidden_states=encoder_outputs[0],
            encoder_attention_mask=attention_mask,
            past_key_values=past_key_values,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.head(states.last_hidden_state)
        never = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
        never[[self.config.bos_token_id, self.config.pad_token_id]] = True
        return Seq2SeqLMOutput(
            logits=logits.masked_fill(never, float("-inf")),
            past_key_values=states.past_key_values,
            encoder_last_hidden_state=encoder_outputs[0],
        )


AutoConfig.register(PlanPriorConfig.model_type, PlanPriorConfig, exist_ok=True)
AutoModel.register(PlanPriorConfig, PlanPrior, exist_ok=True)
AutoModelForSeq2SeqLM.register(PlanPriorConfig, PlanPrior, exist_ok=True)
