"""BART-CVAE (section 4.3): posterior q(z | y), prior p(z | x), one Gaussian z added at every position of a story.

The posterior reads the story with a copy of the backbone's reader, as DiscoDVT's does; the prior reads the prompt with
another. Both go through the seam of `discodvt.model.backbones`, so the backbone may be a BART or a causal model. The KL
term is thresholded per dimension (Kingma et al. 2016); both values are kept, for the thresholded one is no KL and its
sum no bound. Distributions are computed in float32 whatever the states are.
"""

import math
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from discodvt.model.around_backbone import AroundBackbone, keep_settings
from discodvt.model.backbones import Prompt, masked_mean, new_backbone
from discodvt.model.configuration import WithBackbone

MAX_LOG_VARIANCE = 8.0
ACTIVE_VARIANCE = 0.01  # Burda et al. 2016
KNOWN_AT_FIRST = 0.5  # of the variance of z: that of the posterior means of different stories
STORIES_FOR_A_DIRECTION = 8  # in which they differ; with fewer it would be one of those stories alone
MIN_SIZE = 1e-6

Threshold = Literal["dimension", "total", "weight"]


class Gaussian(NamedTuple):
    """A diagonal normal distribution for each story of a batch."""

    mean: Tensor  # [B, Z]
    log_variance: Tensor  # [B, Z]

    def sample(self, noise: Tensor) -> Tensor:
        """z [B, Z] from standard normal noise [B, Z] (reparameterised)."""
        return self.mean + noise * (0.5 * self.log_variance).exp()

    def log_density(self, z: Tensor) -> Tensor:
        """ln N(z) of z [..., Z], summed over dimensions."""
        squares = (z - self.mean).square() / self.log_variance.exp()
        return -0.5 * (squares + self.log_variance + math.log(2 * math.pi)).sum(-1)


def kl_per_dimension(posterior: Gaussian, prior: Gaussian) -> Tensor:
    """KL(q || p) of each story and dimension [B, Z], in nats, in closed form."""
    ratio = posterior.log_variance - prior.log_variance
    squares = (posterior.mean - prior.mean).square() / prior.log_variance.exp()
    return 0.5 * (ratio.exp() + squares - 1 - ratio)


def kl_penalty(kl: Tensor, *, threshold: float, form: Threshold = "dimension") -> Tensor:
    """The KL term of the loss [B] from kl [B, Z]; the paper says "maxed" with 0.1, not what is.

    dimension  sum_i max(threshold, KL_i): each dimension may be used that far for nothing (our reading)
    total      max(threshold, sum_i KL_i)
    weight     threshold * sum_i KL_i
    """
    if form == "dimension":
        return kl.clamp(min=threshold).sum(-1)
    return kl.sum(-1).clamp(min=threshold) if form == "total" else threshold * kl.sum(-1)


class GaussianHead(nn.Module):
    """Pooled states to a Gaussian: one linear layer, or (for the prior) a tanh layer and one that starts at 0, so that
    the prior starts as N(0, I)."""

    def __init__(self, width: int, dimensions: int, *, hidden: int | None = None) -> None:
        super().__init__()
        last = nn.Linear(hidden or width, 2 * dimensions)
        if hidden:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.layers = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), last) if hidden else last

    def forward(self, states: Tensor, mask: Tensor) -> Gaussian:
        """States [B, T, D] and mask [B, T] to mean and log variance [B, Z]."""
        with torch.autocast(states.device.type, enabled=False):
            mean, log_variance = self.layers(masked_mean(states.float(), mask)).chunk(2, dim=-1)
        return Gaussian(mean, log_variance.clamp(-MAX_LOG_VARIANCE, MAX_LOG_VARIANCE))


class LatentOutput(NamedTuple):
    """A batch under posterior and prior."""

    posterior: Gaussian
    prior: Gaussian
    z: Tensor  # [B, Z], drawn from the posterior
    kl: Tensor  # [B, Z], raw


class GaussianLatent(nn.Module):
    """Posterior head, prior head and the projection to the decoder's width (Optimus: "embedding" injection)."""

    def __init__(self, width: int, dimensions: int, *, projection_scale: float = 0.02) -> None:
        super().__init__()
        self.dimensions = dimensions
        self.posterior = GaussianHead(width, dimensions)
        self.prior = GaussianHead(width, dimensions, hidden=width)
        self.projection = nn.Linear(dimensions, width, bias=False)
        nn.init.normal_(self.projection.weight, std=projection_scale)  # larger, it would drown the word embeddings

    def forward(
        self, story_states: Tensor, story_mask: Tensor, prompt_states: Tensor, prompt_mask: Tensor, noise: Tensor
    ) -> LatentOutput:
        """States [B, T, D], masks [B, T], noise [B, Z] (zeros: the posterior mean) to z and its KL."""
        posterior = self.posterior(story_states, story_mask)
        prior = self.prior(prompt_states, prompt_mask)
        return LatentOutput(posterior, prior, posterior.sample(noise), kl_per_dimension(posterior, prior))

    def draw(self, prompt_states: Tensor, prompt_mask: Tensor, noise: Tensor) -> Tensor:
        """z [B, Z] from the prior: what a story is written from, one draw for all of it."""
        prior: Gaussian = self.prior(prompt_states, prompt_mask)
        return prior.sample(noise)

    @torch.no_grad()
    def tell_apart(self, pooled: Tensor) -> None:
        """Start the posterior so that stories, whose mean states are `pooled` [N, D], differ in z.

        Mean states of texts are much alike: what a new head makes of them is noise, which the generator learns to
        ignore before the posterior has learned anything. Here each dimension is a mixture of the main directions in
        which stories differ, brought to one size, and half of its variance is that of the posterior means.
        """
        centre = pooled.mean(0)
        _, sizes, directions = torch.linalg.svd(pooled - centre, full_matrices=False)
        main = min(self.dimensions, len(pooled) // STORIES_FOR_A_DIRECTION, int((sizes > MIN_SIZE).sum()))
        spread = sizes[:main] / max(1, len(pooled) - 1) ** 0.5
        mixture = torch.randn(self.dimensions, len(spread), generator=torch.Generator().manual_seed(0)).to(pooled)
        mixture /= mixture.norm(dim=1, keepdim=True).clamp(min=MIN_SIZE)
        head: Any = self.posterior.layers
        weight = (KNOWN_AT_FIRST**0.5 * mixture / spread) @ directions[:main]
        head.weight[: self.dimensions], head.bias[: self.dimensions] = weight, -(weight @ centre)
        head.weight[self.dimensions :], head.bias[self.dimensions :] = 0, math.log(1 - KNOWN_AT_FIRST)

    def at_positions(self, z: Tensor, length: int) -> Tensor:
        """What is added to the decoder's input embeddings [B, length, D]: the same at every position."""
        latent: Tensor = self.projection(z)
        return latent.unsqueeze(1).expand(-1, length, -1)


@torch.no_grad()
def mutual_information(posterior: Gaussian, noise: Tensor, *, rows: int = 64) -> float:
    """I(story; z) in nats: E ln q(z | y) - E ln q(z), q(z) the mixture over the N stories given; at most ln N.

    Posterior and noise [N, Z]; `rows` stories are held against all N at a time.
    """
    z = posterior.sample(noise)
    own = posterior.log_density(z)  # [N]
    parts = (z[start : start + rows] for start in range(0, len(z), rows))
    mixture = [posterior.log_density(part.unsqueeze(1)).logsumexp(1) for part in parts]  # [rows, N] -> [rows]
    return float((own - torch.cat(mixture) + math.log(len(z))).mean())


def latent_alarms(figures: dict[str, float], *, min_swap_gap: float, min_kl: float = 0.1) -> list[str]:
    """Signs of posterior collapse, each with advice. KL at its floor proves nothing, for noise can pay for it; what
    another story's z costs does (`swap_gap`, nats per token)."""
    found = []
    if figures["kl"] < min_kl:
        found.append(
            f"posterior collapse: KL {figures['kl']:.3f} nats a story, {figures['active_units']:.0f} of "
            f"{figures['latent_dimensions']:.0f} units active; raise the KL threshold or let the KL weight rise from 0"
        )
    gap = figures.get("swap_gap")
    if gap is not None and gap < min_swap_gap:
        found.append(
            f"another story's latent costs only {gap:.3f} nats per token: the generator ignores z; "
            "raise the KL threshold or drop words of the decoder's input"
        )
    return found


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
    def tell_apart(self, stories: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Start with a z in which these stories differ, batches of ids and masks [B, T]."""
        was_training = self.posterior.training
        self.posterior.eval()
        pooled = [masked_mean(self._read(self.posterior, ids, mask).float(), mask) for ids, mask in stories]
        self.posterior.train(was_training)
        self.latent.tell_apart(torch.cat(pooled))

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
