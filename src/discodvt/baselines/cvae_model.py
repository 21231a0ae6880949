"""BART-CVAE as a model: a backbone with one Gaussian latent added at every position of a story (section 4.3).

The posterior reads the story with a copy of the backbone's reader, as DiscoDVT's does; the prior reads the prompt with
another. Both go through the seam of `discodvt.model.backbones`, so the backbone may be a BART or a causal model.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from discodvt.baselines.cvae import GaussianLatent, LatentOutput
from discodvt.model.around_backbone import AroundBackbone
from discodvt.model.backbones import Prompt, new_backbone
from discodvt.model.configuration import WithBackbone
from discodvt.model.generation import keep_settings

PROJECTION_SCALE = 0.2  # of the latent over that of the embeddings, at first: a pretrained generator bears that


class CVAEConfig(WithBackbone):
    """A language model (`backbone_config`) and the size of z."""

    model_type = "discodvt-cvae"

    posterior_layers: int | None = None
    separator_token_id: int | None = None
    latent_dimensions: int = 64
    state_scale: float = 1.0  # of what the readers say, so that z begins with a common size for any backbone


class BartCVAE(AroundBackbone):
    """Posterior, prior, projection and generator."""

    config: CVAEConfig
    config_class = CVAEConfig

    def __init__(self, config: CVAEConfig) -> None:
        super().__init__(config)
        backbone = config.backbone
        self.backbone = new_backbone(backbone, separator=config.separator_token_id)
        self.posterior = self.backbone.new_posterior(config.posterior_layers)
        self.prompt_reader = self.backbone.new_posterior(config.posterior_layers)
        self.generator = self.backbone.new_generator()
        self.latent = GaussianLatent(int(backbone.hidden_size), config.latent_dimensions)
        self.post_init()
        keep_settings(self.generation_config, self.symbols, top_p=0.9)

    @classmethod
    def from_backbone(cls, language_model: PreTrainedModel, *, config: Any = None, **sizes: Any) -> "BartCVAE":
        """A new model around an open language model, whose reader starts both networks.

        `config` is the backbone's configuration, where it is to differ from the model's own.
        """
        model = cls(CVAEConfig(backbone_config=config or language_model.config, **sizes))
        model.generator.load_state_dict(language_model.state_dict())
        for reader in (model.posterior, model.prompt_reader):
            model.backbone.copy_posterior(model.generator, reader)
        with torch.no_grad():  # z is of unit variance: each position gets the sum of its dimensions
            scale = PROJECTION_SCALE * model.backbone.embedding_scale(model.generator)
            nn.init.normal_(model.latent.projection.weight, std=scale / model.config.latent_dimensions**0.5)
            model.config.state_scale = model.fitted_scale()
        return model

    def _read(self, reader: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
        return self.backbone.read(reader, ids, mask) * self.config.state_scale

    def _init_weights(self, module: nn.Module) -> None:
        """New parts keep their own initialisation; the readers and the generator see to theirs."""

    def read(
        self, story_ids: Tensor, story_mask: Tensor, prompt_ids: Tensor, prompt_mask: Tensor, noise: Tensor
    ) -> LatentOutput:
        """Stories and prompts [B, T] to posterior, prior, z and KL; noise [B, Z] of zeros gives the posterior mean."""
        story = self._read(self.posterior, story_ids, story_mask)
        prompt = self._read(self.prompt_reader, prompt_ids, prompt_mask)
        found: LatentOutput = self.latent(story, story_mask, prompt, prompt_mask, noise)
        return found

    @torch.no_grad()
    def draw(self, prompt_ids: Tensor, prompt_mask: Tensor, noise: Tensor) -> Tensor:
        """z [B, Z] of the prior, from noise [B, Z]: one draw for a whole story."""
        states = self._read(self.prompt_reader, prompt_ids, prompt_mask)
        return self.latent.draw(states, prompt_mask, noise)

    def summed_nll(
        self, prompt_ids: Tensor, prompt_mask: Tensor, decoder_ids: Tensor, labels: Tensor, z: Tensor
    ) -> Tensor:
        """Sum of -log p(y | z, x): the same latent at every position."""
        latent = self.latent.at_positions(z, decoder_ids.shape[1])
        prompt = Prompt(prompt_ids, prompt_mask)
        states = self.backbone.decode(self.generator, prompt, decoder_ids, latent, use_cache=False).last_hidden_state
        return self.backbone.summed_loss(self.generator, states, labels)


AutoConfig.register(CVAEConfig.model_type, CVAEConfig, exist_ok=True)
AutoModel.register(CVAEConfig, BartCVAE, exist_ok=True)
