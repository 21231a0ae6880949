"""The prior: prompt in, plan out, code by code (section 3.4).

Beside a BART it is a BART shape whose decoder has a vocabulary of codes (the paper's). Beside a causal language model
it is that model itself, or its first layers, with K + 3 more words: it continues `BOS prompt` by codes.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, GenerationMixin, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.models.bart.modeling_bart import BartDecoder, BartEncoder

from discodvt.checkpoints import Checkpoint
from discodvt.data.subwords import Symbols
from discodvt.model.around_backbone import keep_settings, settle_lengths
from discodvt.model.backbones import Prompt, new_backbone
from discodvt.model.configuration import CausalPlanPriorConfig, PlanPriorConfig


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
        """A new prior for the plans of a DiscoDVT around a BART, whose encoder is copied."""
        shape: Any = model.config
        prior = cls(
            PlanPriorConfig.from_backbone_config(shape.backbone, num_codes=shape.num_codes, max_codes=max_codes)
        )
        prior.encoder.load_state_dict(model.get_encoder().state_dict())
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
        return Seq2SeqLMOutput(
            logits=_codes_only(self.head(states.last_hidden_state), self.config),
            past_key_values=states.past_key_values,
            encoder_last_hidden_state=encoder_outputs[0],
        )


class CausalPlanPrior(PreTrainedModel, GenerationMixin):
    """A causal language model that continues a prompt by codes; codes are numbered as in `PlanPrior`."""

    config: CausalPlanPriorConfig
    config_class = CausalPlanPriorConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True

    def __init__(self, config: CausalPlanPriorConfig) -> None:
        super().__init__(config)
        self.backbone = new_backbone(config.backbone, separator=config.text_vocab_size + config.bos_token_id)
        self.language_model = self.backbone.new_generator()
        self._no_split_modules = list(self.language_model._no_split_modules or [])
        self.post_init()
        symbols = Symbols((), (), config.bos_token_id, config.eos_token_id, config.pad_token_id)
        keep_settings(self.generation_config, symbols)

    @classmethod
    def beside(cls, model: Any, *, max_codes: int, layers: int | None = None) -> "CausalPlanPrior":
        """A new prior for the plans of a DiscoDVT around a causal model: its weights, and new rows for the codes."""
        shape = model.config
        prior = cls(
            CausalPlanPriorConfig.from_backbone_config(
                shape.backbone,
                num_codes=shape.num_codes,
                max_codes=max_codes,
                layers=layers or shape.backbone.num_hidden_layers,
            )
        )
        words, scale = shape.vocab_size, model.backbone.embedding_scale(model.generator)
        wanted = prior.language_model.state_dict()
        with torch.no_grad():
            for name, weight in model.generator.state_dict().items():
                if name in wanted and wanted[name].shape != weight.shape:  # a table of words, on either side
                    wanted[name][words:].normal_(std=scale)
                if name in wanted:
                    wanted[name][: len(weight)].copy_(weight)
        return prior

    def get_input_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.language_model.get_input_embeddings()
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.language_model.get_output_embeddings()
        return head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        decoder_input_ids: Tensor,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Prompt ids [B, N] and codes [B, L] to logits [B, L, K + 3] of the next code."""
        words = self.config.text_vocab_size
        states = self.backbone.decode(
            self.language_model,
            Prompt(input_ids, attention_mask),
            decoder_input_ids + words,
            None,
            use_cache=False,
            **kwargs,
        ).last_hidden_state
        weight, bias = self.backbone.head(self.language_model)
        logits = self.backbone.capped(nn.functional.linear(states, weight[words:], bias[words:]))
        return Seq2SeqLMOutput(logits=_codes_only(logits, self.config))

    @torch.no_grad()
    def generate(  # type: ignore[override]  # only what is used here is named
        self, inputs: Tensor | None = None, *, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """`GenerationMixin.generate` of the language model among codes; returns bos, codes and eos, as `PlanPrior`."""
        words, config = self.config.text_vocab_size, self.config
        inputs = kwargs.pop("input_ids", inputs)
        if inputs is None:
            raise ValueError("generate needs the ids of prompts (input_ids)")
        mask = torch.ones_like(inputs) if attention_mask is None else attention_mask
        ids, mask, given, _ = self.backbone.begin(inputs, mask)
        settle_lengths(self.generation_config, kwargs, given=given, room=config.max_codes + 1)
        marks = {"eos_token_id": words + config.eos_token_id, "pad_token_id": words + config.pad_token_id}
        drawn: Tensor = self.language_model.generate(
            ids,
            attention_mask=mask,
            **{"do_sample": True, "top_k": 0, **kwargs, **marks},
            suppress_tokens=[*range(words), words + config.bos_token_id, words + config.pad_token_id],
        )
        return drawn[:, given - 1 :] - words


Prior = PlanPrior | CausalPlanPrior


def new_prior(model: Any, *, max_codes: int, layers: int | None = None) -> Prior:
    """A prior for the plans of a DiscoDVT, of its backbone's kind; `layers` of a causal one (None: all)."""
    if model.config.is_encoder_decoder:
        return PlanPrior.beside(model, max_codes=max_codes)
    return CausalPlanPrior.beside(model, max_codes=max_codes, layers=layers)


def load_prior(checkpoint: Checkpoint, *, device: torch.device | str = "cpu") -> Prior:
    """The prior of a checkpoint, of either kind."""
    kind = CausalPlanPrior if checkpoint.kind == CausalPlanPriorConfig.model_type else PlanPrior
    prior: Prior = checkpoint.load(kind, device=device)
    return prior


def _codes_only(logits: Tensor, config: Any) -> Any:
    """Logits [..., K + 3] in which neither bos nor pad can be drawn."""
    never = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    never[[config.bos_token_id, config.pad_token_id]] = True
    return logits.masked_fill(never, float("-inf"))


for _config, _prior in ((PlanPriorConfig, PlanPrior), (CausalPlanPriorConfig, CausalPlanPrior)):
    AutoConfig.register(_config.model_type, _config, exist_ok=True)
    AutoModel.register(_config, _prior, exist_ok=True)
    AutoModelForSeq2SeqLM.register(_config, _prior, exist_ok=True)
