"""DiscoDVT: a posterior that reads a story into codes, and a language model that writes it back under their control.

    story -> posterior -> DownSampling -> bottleneck -> UpSampling -> latent, added to the model's input embeddings

The generator is an untouched Hugging Face model, BART or causal (`discodvt.model.backbones`); with a latent of zeros it
is exactly that model (section 3).
"""

import warnings
from os import PathLike
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import Cache
from transformers.modeling_outputs import CausalLMOutputWithPast, Seq2SeqLMOutput

from discodvt.checkpoints import Checkpoint
from discodvt.model.around_backbone import (
    AroundBackbone,
    check_plan,
    keep_settings,
    penalise_stories_alone,
    settle_lengths,
)
from discodvt.model.backbones import Prompt, load_language_model, new_backbone
from discodvt.model.bottlenecks import new_bottleneck
from discodvt.model.configuration import DiscoDVTConfig
from discodvt.model.relation_head import RelationHead
from discodvt.model.resampling import DownSampling, UpSampling
from discodvt.stored_weights import holds_a_part


class PosteriorOutput(NamedTuple):
    """A story as the posterior reads it."""

    codes: Tensor  # [B, L] argmax codes, the padding code past the story
    probabilities: Tensor | None  # [B, L, K], where the bottleneck has any
    mask: Tensor  # [B, L] true where a code stands for part of the story
    latent: Tensor  # [B, T, D] h^z
    auxiliary: Tensor | None = None  # [B] the bottleneck's own loss, if it has one


class DiscoDVT(AroundBackbone):
    """Posterior, bottleneck, generator and relation head."""

    config: DiscoDVTConfig
    config_class = DiscoDVTConfig
    main_input_name = "input_ids"
    _supports_flash_attn = True

    def __init__(self, config: DiscoDVTConfig) -> None:
        super().__init__(config)
        self.backbone = new_backbone(config.backbone, separator=config.separator_token_id)
        self.posterior = self.backbone.new_posterior(config.posterior_layers)
        self.down = DownSampling(config.hidden_size, config.conv_channels, config.conv_layers)
        self.bottleneck = new_bottleneck(vars(config))
        self.up = UpSampling(
            config.code_width, config.conv_channels, config.hidden_size, config.conv_layers, scale=config.latent_scale
        )
        self.generator = self.backbone.new_generator()
        self.relation_head = RelationHead(
            config.hidden_size, config.relation_width, config.num_relations, scale=config.latent_scale
        )
        self._no_split_modules = list(self.generator._no_split_modules or [])
        self.post_init()
        keep_settings(self.generation_config, self.symbols, top_p=0.9)

    @classmethod
    def from_pretrained(cls, source: str | PathLike[str] | None, *arguments: Any, **settings: Any) -> Any:  # type: ignore[override]
        """As of any Hugging Face model; a checkpoint that holds only what was trained is put together with its base."""
        if source is None or not holds_a_part(source, settings):
            return super().from_pretrained(source, *arguments, **settings)
        return Checkpoint.open(str(source)).put_together(super().from_pretrained, **settings)

    @classmethod
    def from_backbone(
        cls, source: str | PathLike[str] | PreTrainedConfig | PreTrainedModel, **sizes: Any
    ) -> "DiscoDVT":
        """A new model around a BART or a causal language model: a checkpoint (directory or Hub id, safetensors only),
        an open model, or a configuration (random weights). `sizes` are fields of `DiscoDVTConfig`.
        """
        language_model: Any
        if isinstance(source, PreTrainedModel):
            language_model = source
        elif isinstance(source, PreTrainedConfig):
            language_model = new_backbone(source).new_generator()
        else:
            language_model = load_language_model(Checkpoint.open(str(source)))
        model = cls(DiscoDVTConfig.from_backbone_config(language_model.config, **sizes))
        model.generator.load_state_dict(language_model.state_dict())
        model.backbone.copy_posterior(model.generator, model.posterior)
        if not model.config.is_encoder_decoder:
            model.backbone.check(model.generator)
            if not model.backbone.reads_both_ways(model.posterior):
                kind = model.config.backbone.model_type
                warnings.warn(f"the posterior of a {kind} model reads left to right: it keeps its mask", stacklevel=2)
            model._fit_scales()
        return model

    @classmethod
    def from_bart(
        cls, source: str | PathLike[str] | BartConfig | BartForConditionalGeneration, **sizes: Any
    ) -> "DiscoDVT":
        """`from_backbone` for a BART."""
        return cls.from_backbone(source, **sizes)

    def _init_weights(self, module: nn.Module) -> None:
        """New parts keep PyTorch's own initialisation; transformers would set 0.02 everywhere, or nothing at all.

        The posterior and the generator are models of their own and see to theirs.
        """
        if isinstance(module, nn.Linear | nn.Conv1d | nn.ConvTranspose1d | nn.Bilinear | nn.Embedding):
            module.reset_parameters()

    @torch.no_grad()
    def _fit_scales(self) -> None:
        """States and latents of common size for any backbone: else the latent drowns small embeddings."""
        self.config.posterior_scale = self.fitted_scale()
        latent_scale = 3 * self.backbone.embedding_scale(self.generator)
        self.config.latent_scale = self.up.scale = self.relation_head.scale = latent_scale

    def _read_states(self, story_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.backbone.read(self.posterior, story_ids, attention_mask) * self.config.posterior_scale

    def change_bottleneck(self, name: str, levels: list[int] | None = None) -> None:
        """Codes made in another way: those already learned stay if they are of one kind, else they are new."""
        before = self.bottleneck
        self.config.bottleneck, self.config.code_levels = name, levels
        self.bottleneck = new_bottleneck(vars(self.config))
        old, new = before.state_dict(), self.bottleneck.state_dict()
        if {name: weight.shape for name, weight in old.items()} == {name: weight.shape for name, weight in new.items()}:
            self.bottleneck.load_state_dict(old)

    def get_encoder(self, modality: str | None = None) -> nn.Module:
        """The encoder of prompts (the posterior encodes stories, and is no business of `generate`)."""
        encoder: nn.Module = self.generator.get_encoder()
        return encoder

    def read(
        self,
        story_ids: Tensor,
        attention_mask: Tensor,
        *,
        temperature: float | None = None,
        noise: Tensor | None = None,
    ) -> PosteriorOutput:
        """Story ids `story_start y1 .. yM` [B, T] to codes and latent; a temperature relaxes the codes, noise draws."""
        hidden = self._read_states(story_ids, attention_mask)  # [B, T, D]
        features, code_mask = self.down(hidden, attention_mask.bool())  # [B, L, C], [B, L]
        found = self.bottleneck(features, code_mask, temperature=temperature, noise=noise)
        after = self.bottleneck.embed(found.codes.new_full((len(story_ids), 1), self.config.padding_code))  # [B, 1, E]
        latent = self.up(torch.cat([found.vectors, after], dim=1), story_ids.shape[1])
        return PosteriorOutput(found.codes, found.probabilities, code_mask, latent, found.auxiliary)

    @torch.no_grad()
    def plan(self, story_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The codes [B, L] of stories, the padding code past their end."""
        hidden = self._read_states(story_ids, attention_mask)
        codes: Tensor = self.bottleneck(*self.down(hidden, attention_mask.bool())).codes
        return codes

    def latent(self, codes: Tensor, length: int) -> Tensor:
        """Codes [B, L] to h^z [B, length, D]: positions past the plan carry the latent of padding codes."""
        needed = -(-length // self.config.tokens_per_code) + 1  # one code beyond, so that the cut edge is never seen
        codes = F.pad(codes, (0, max(0, needed - codes.shape[1])), value=self.config.padding_code)
        latent: Tensor = self.up(self.bottleneck.embed(codes[:, :needed]), length)
        return latent

    def decode(
        self, prompt_ids: Tensor | None, prompt_mask: Tensor | None, story_ids: Tensor, latent: Tensor, **kwargs: Any
    ) -> Any:
        """States that predict the story [B, T, D] (`last_hidden_state`), the latent added where they are made."""
        return self.backbone.decode(self.generator, Prompt(prompt_ids, prompt_mask), story_ids, latent, **kwargs)

    def summed_loss(self, states: Tensor, labels: Tensor) -> Tensor:
        """Sum of -log p(label) from states [B, T, D] and labels [B, T] with -100 at padding."""
        return self.backbone.summed_loss(self.generator, states, labels)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_latent: Tensor | None = None,
        prompt_lengths: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Cache | None = None,
        use_cache: bool | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits [B, T, V] of the story `decoder_input_ids` [B, T] after the prompt `input_ids`.

        `decoder_latent` covers story positions from 0, `None` is a latent of zeros. `generate` gives a causal backbone
        one sequence instead: `input_ids` is its next part, and `prompt_lengths` [B] what stands before SEP.
        """
        kwargs |= {"past_key_values": past_key_values, "use_cache": use_cache}
        if decoder_input_ids is None:
            return self._continue(input_ids, attention_mask, decoder_latent, prompt_lengths, position_ids, **kwargs)
        if encoder_outputs is not None:
            kwargs["encoder_outputs"] = encoder_outputs
        prompt = Prompt(input_ids, attention_mask)
        outputs = self.backbone.decode(self.generator, prompt, decoder_input_ids, decoder_latent, **kwargs)
        logits: Any = self.backbone.logits(self.generator, outputs.last_hidden_state)
        return Seq2SeqLMOutput(
            logits=logits,
            past_key_values=outputs.past_key_values,
            encoder_last_hidden_state=getattr(outputs, "encoder_last_hidden_state", None),
            decoder_hidden_states=getattr(outputs, "decoder_hidden_states", None),
            decoder_attentions=getattr(outputs, "decoder_attentions", None),
            cross_attentions=getattr(outputs, "cross_attentions", None),
        )

    def _continue(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        latent: Tensor | None,
        prompt_lengths: Tensor | None,
        position_ids: Tensor | None,
        *,
        logits_to_keep: int = 0,
        **kwargs: Any,
    ) -> Any:
        """One part of a sequence, as `generate` gives it to a causal model."""
        if input_ids is None:
            raise ValueError("DiscoDVT needs input_ids")
        if latent is not None and (prompt_lengths is None or position_ids is None):
            raise ValueError("DiscoDVT needs prompt_lengths and position_ids to place a latent in a sequence")
        place = torch.full_like(input_ids, -1)
        if prompt_lengths is not None and position_ids is not None:
            place = position_ids - prompt_lengths.unsqueeze(1)
        outputs = self.backbone.run(
            self.generator, input_ids, place, latent, attention_mask=attention_mask, position_ids=position_ids, **kwargs
        )
        states = outputs.last_hidden_state[:, -logits_to_keep:] if logits_to_keep else outputs.last_hidden_state
        logits: Any = self.backbone.logits(self.generator, states)
        return CausalLMOutputWithPast(logits=logits, past_key_values=outputs.past_key_values)

    @torch.no_grad()
    def generate(  # type: ignore[override]  # only what is used here is named
        self, inputs: Tensor | None = None, *, attention_mask: Tensor | None = None, plan: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """`GenerationMixin.generate` from prompts [B, N] under a plan [B, L]; all of its arguments hold.

        As there, a causal backbone returns prompt, SEP and story, an encoder-decoder its start symbol and the story. A
        repetition penalty is one over the story, with either.
        """
        prompts = kwargs.pop("input_ids", None) if inputs is None else inputs
        if prompts is None:
            raise ValueError("generate needs the ids of prompts (input_ids)")
        mask = torch.ones_like(prompts) if attention_mask is None else attention_mask
        ids, mask, given, more = self.backbone.begin(prompts, mask)
        start = kwargs.get("decoder_input_ids")
        before = given if start is None else start.shape[1]
        room = self.config.max_position_embeddings - before
        longest = settle_lengths(self.generation_config, kwargs, given=before, room=room)
        if not self.config.is_encoder_decoder:
            penalise_stories_alone(self.generation_config, kwargs, prompt=given - 1)  # SEP is the story's start
        if plan is not None:
            check_plan(plan, self.config.num_codes)
            told = before if self.config.is_encoder_decoder else 1  # symbols at story positions, before the first new
            kwargs |= more | {"decoder_latent": self._latent_to_write(plan, told + longest)}
        return super().generate(ids, attention_mask=mask, **kwargs)  # type: ignore[misc]  # wants tensors for modules

    def _latent_to_write(self, plan: Tensor, length: int) -> Tensor:
        """The latent of plans [B, L] at their strength, none for as long after each as `plan_tail` says."""
        size, tail = self.config.tokens_per_code, self.config.plan_tail * self.config.tokens_per_code
        past = torch.arange(length, device=plan.device) - size * (plan < self.config.num_codes).sum(1, keepdim=True)
        in_tail = (past >= 0) & (past < tail)
        return self.latent(plan, length).masked_fill(in_tail.unsqueeze(2), 0.0) * self.config.plan_strength

    def write(self, prompt_ids: Tensor, prompt_mask: Tensor, plan: Tensor | None = None, **settings: Any) -> Tensor:
        """`generate`, and of what it returns the stories alone [B, T], their end and padding included."""
        *_, given, _ = self.backbone.begin(prompt_ids, prompt_mask)
        written: Tensor = self.generate(prompt_ids, attention_mask=prompt_mask, plan=plan, **settings)
        return written[:, given:]


AutoConfig.register(DiscoDVTConfig.model_type, DiscoDVTConfig, exist_ok=True)
for _kind in (AutoModel, AutoModelForSeq2SeqLM, AutoModelForCausalLM):
    _kind.register(DiscoDVTConfig, DiscoDVT, exist_ok=True)
