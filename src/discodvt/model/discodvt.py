"""DiscoDVT: a posterior that reads a story into codes, and a BART that writes it back under their control (section 3).

    story -> posterior -> DownSampling -> bottleneck -> UpSampling -> latent, added to the decoder's input embeddings

The generator is an untouched `BartForConditionalGeneration`; with a latent of zeros it is exactly that BART.
"""

from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    GenerationMixin,
    PreTrainedModel,
)
from transformers.cache_utils import Cache
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.models.bart.modeling_bart import BartEncoder

from discodvt.model.bottlenecks import new_bottleneck
from discodvt.model.configuration import DiscoDVTConfig
from discodvt.model.generation import check_plan, keep_settings, settle_lengths
from discodvt.model.resampling import DownSampling, UpSampling


class PosteriorOutput(NamedTuple):
    """A story as the posterior reads it."""

    codes: Tensor  # [B, L] argmax codes, the padding code past the story
    probabilities: Tensor  # [B, L, K]
    mask: Tensor  # [B, L] true where a code stands for part of the story
    latent: Tensor  # [B, T, D] h^z
    auxiliary: Tensor | None = None  # [B] the bottleneck's own loss, if it has one


class RelationHead(nn.Module):
    """A projection and a bilinear form over the mean latents of two EDUs (equation 6)."""

    def __init__(self, width: int, relation_width: int, relations: int) -> None:
        super().__init__()
        self.projection = nn.Linear(width, relation_width)
        self.bilinear = nn.Bilinear(relation_width, relation_width, relations)

    def forward(self, latent: Tensor, pooling: Tensor, pairs: Tensor) -> Tensor:
        """Label logits [P, labels] of neighbouring EDUs.

        `latent` [B, T, D]; `pooling` [B, S, T] averages each EDU's positions (rows sum to 1, or are 0 at padding);
        `pairs` [P, 2] lists (story, left EDU), the right EDU being the next one.
        """
        means = self.projection(pooling.to(latent.dtype) @ latent)  # [B, S, R]; linear, so it may follow the mean
        story, left = pairs.unbind(-1)
        logits: Tensor = self.bilinear(means[story, left], means[story, left + 1])
        return logits


class DiscoDVT(PreTrainedModel, GenerationMixin):
    """Posterior, bottleneck, generator and relation head."""

    config: DiscoDVTConfig
    config_class = DiscoDVTConfig
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _no_split_modules = ["BartEncoderLayer", "BartDecoderLayer"]  # noqa: RUF012 (the type transformers declares)
    _keys_to_ignore_on_load_missing = [r"generator\.final_logits_bias"]  # noqa: RUF012

    def __init__(self, config: DiscoDVTConfig) -> None:
        super().__init__(config)
        self.posterior = BartEncoder(config)
        self.down = DownSampling(config.d_model, config.conv_channels, config.conv_layers)
        self.bottleneck = new_bottleneck(vars(config))
        self.up = UpSampling(config.code_width, config.conv_channels, config.d_model, config.conv_layers)
        self.generator = BartForConditionalGeneration(config)
        self.relation_head = RelationHead(config.d_model, config.relation_width, config.num_relations)
        self.post_init()
        keep_settings(self.generation_config, config, top_p=0.9)

    @classmethod
    def from_bart(
        cls, source: str | PathLike[str] | BartConfig | BartForConditionalGeneration, **sizes: Any
    ) -> "DiscoDVT":
        """A new model around a BART: a checkpoint (local or Hub, safetensors only), an open one, or a shape."""
        if isinstance(source, BartForConditionalGeneration):
            bart = source
        elif isinstance(source, BartConfig):
            bart = BartForConditionalGeneration(source)
        else:
            bart = BartForConditionalGeneration.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        model = cls(DiscoDVTConfig.from_bart_config(bart.config, **sizes))
        model.generator.load_state_dict(bart.state_dict())
        model.posterior.load_state_dict(bart.get_encoder().state_dict())
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """New parts keep PyTorch's own initialisation; transformers would set 0.02 everywhere, or nothing at all.

        The posterior and the generator are models of their own and see to theirs.
        """
        if isinstance(module, nn.Linear | nn.Conv1d | nn.ConvTranspose1d | nn.Bilinear | nn.Embedding):
            module.reset_parameters()

    def change_bottleneck(self, name: str) -> None:
        """Codes made in another way: those already learned stay if they are of one kind, else they are new."""
        before = self.bottleneck
        self.config.bottleneck = name
        self.bottleneck = new_bottleneck(vars(self.config))
        old, new = before.state_dict(), self.bottleneck.state_dict()
        if {name: weight.shape for name, weight in old.items()} == {name: weight.shape for name, weight in new.items()}:
            self.bottleneck.load_state_dict(old)

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder of prompts (the posterior encodes stories, and is no business of `generate`)."""
        encoder: nn.Module = self.generator.model.encoder
        return encoder

    def get_input_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.generator.get_input_embeddings()
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.generator.lm_head
        return head

    def read(
        self,
        story_ids: Tensor,
        attention_mask: Tensor,
        *,
        temperature: float | None = None,
        noise: Tensor | None = None,
    ) -> PosteriorOutput:
        """Decoder input ids [B, T] to codes and latent; a temperature relaxes the codes, noise [B, L, K] draws them."""
        mask = attention_mask.bool()
        hidden = self.posterior(input_ids=story_ids, attention_mask=attention_mask).last_hidden_state  # [B, T, D]
        features, code_mask = self.down(hidden, mask)  # [B, L, C], [B, L]
        found = self.bottleneck(features, code_mask, temperature=temperature, noise=noise)
        after = self.bottleneck.embed(found.codes.new_full((len(story_ids), 1), self.config.padding_code))  # [B, 1, E]
        latent = self.up(torch.cat([found.vectors, after], dim=1), story_ids.shape[1])
        return PosteriorOutput(found.codes, found.probabilities, code_mask, latent, found.auxiliary)

    @torch.no_grad()
    def plan(self, story_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The argmax codes [B, L] of stories (decoder input ids), the padding code past their end."""
        mask = attention_mask.bool()
        hidden = self.posterior(input_ids=story_ids, attention_mask=attention_mask).last_hidden_state
        codes: Tensor = self.bottleneck(*self.down(hidden, mask)).codes
        return codes

    def latent(self, codes: Tensor, length: int) -> Tensor:
        """Codes [B, L] to h^z [B, length, D]: positions past the plan carry the latent of padding codes."""
        needed = -(-length // self.config.tokens_per_code) + 1  # one code beyond, so that the cut edge is never seen
        codes = F.pad(codes, (0, max(0, needed - codes.shape[1])), value=self.config.padding_code)
        latent: Tensor = self.up(self.bottleneck.embed(codes[:, :needed]), length)
        return latent

    def decode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        decoder_input_ids: Tensor,
        decoder_latent: Tensor,
        **kwargs: Any,
    ) -> Any:
        """Decoder states under control: token embedding + h^z + position, at every position (section 3.2.3)."""
        past: Cache | None = kwargs.get("past_key_values")
        start = 0 if past is None else past.get_seq_length()
        latent = decoder_latent[:, start : start + decoder_input_ids.shape[1]]
        return self.generator.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_inputs_embeds=self.generator.model.decoder.embed_tokens(decoder_input_ids) + latent,
            **kwargs,
        )

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_latent: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> Seq2SeqLMOutput:
        """Logits [B, T, V] of the generator; `decoder_latent` covers positions from 0, `None` is a latent of zeros."""
        if decoder_input_ids is None:
            raise ValueError("DiscoDVT needs decoder_input_ids: `<s>` and the story so far")
        kwargs |= {"encoder_outputs": encoder_outputs, "past_key_values": past_key_values, "use_cache": use_cache}
        if decoder_latent is None:
            outputs = self.generator.model(input_ids, attention_mask, decoder_input_ids=decoder_input_ids, **kwargs)
        else:
            outputs = self.decode(input_ids, attention_mask, decoder_input_ids, decoder_latent, **kwargs)
        logits = self.generator.lm_head(outputs.last_hidden_state) + self.generator.final_logits_bias
        return Seq2SeqLMOutput(
            logits=logits,
            past_key_values=outputs.past_key_values,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
        )

    @torch.no_grad()
    def generate(self, *args: Any, plan: Tensor | None = None, **kwargs: Any) -> Any:
        """`GenerationMixin.generate` under a plan [B, L]; all of its arguments hold, beams and samples included."""
        start = kwargs.get("decoder_input_ids")
        given = 1 if start is None else start.shape[1]
        room = self.config.max_position_embeddings - given
        longest = given + settle_lengths(self.generation_config, kwargs, given=given, room=room)
        if plan is not None:
            check_plan(plan, self.config.num_codes)
            kwargs["decoder_latent"] = self.latent(plan, longest)
        return super().generate(*args, **kwargs)  # type: ignore[misc]  # its protocol wants tensors where modules are


AutoConfig.register(DiscoDVTConfig.model_type, DiscoDVTConfig, exist_ok=True)
AutoModel.register(DiscoDVTConfig, DiscoDVT, exist_ok=True)
AutoModelForSeq2SeqLM.register(DiscoDVTConfig, DiscoDVT, exist_ok=True)
