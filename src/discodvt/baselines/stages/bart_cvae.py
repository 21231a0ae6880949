"""Stage `cvae`: BART-CVAE, a story and its one Gaussian latent learned together (section 4.3).

The loss of a story is its NLL plus the thresholded KL, both divided by the same count, the tokens: KL per story weighs
as much as the NLL per story, whatever the lengths. Logged are the raw KL, units in use, mutual information, and what
another story's z costs; the thresholded KL is a penalty, no KL and no part of a bound.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from discodvt.baselines.cvae_model import (
    ACTIVE_VARIANCE,
    BartCVAE,
    Gaussian,
    Threshold,
    kl_penalty,
    latent_alarms,
    mutual_information,
)
from discodvt.checkpoints import Checkpoint
from discodvt.config import LossValidation, NewBackbone, Section, WordDropout
from discodvt.data.batches import Batch, Rows, in_order
from discodvt.data.corruption import generator
from discodvt.training.assembly import Corpus, FromScratch, Site
from discodvt.training.feeds import DropoutSchedule, StoryFeed
from discodvt.training.latent_objective import TokenPrediction
from discodvt.training.losses import TokenHead
from discodvt.training.stages import Counts, Figures, Objective, Stage, StageOutput, Tallies, Term
from discodvt.training.validation import on_device, swap_gap, swapped_losses
from discodvt.training.weights import language_model

STORIES_TO_START = 256  # of which the posterior knows at first how they differ
MOST_FOR_INFORMATION = 2000  # stories: mutual information is at most the logarithm of their number


class CVAEModel(NewBackbone):
    """A backbone, and the latent beside it."""

    latent_dimensions: int = Field(default=64, ge=1)
    posterior_layers: int | None = Field(default=None, ge=1, description="Layers that read stories and prompts")


class KLTerm(Section):
    """The KL term; `threshold` is the paper's beta, of which it does not say what is "maxed" with it."""

    threshold: float = Field(default=0.1, ge=0, description="In nats")
    form: Threshold = Field(
        default="dimension", description="max(threshold, KL) per dimension or in total; or threshold as a weight"
    )
    weight: float = Field(default=1.0, ge=0)
    silent_until: float = Field(default=0.0, ge=0, lt=1, description="Share of the run without it (Optimus: 0.5)")
    whole_at: float = Field(default=0.0, ge=0, le=1, description="Share of the run after which it has its full weight")


class CVAEWatchdog(Section):
    min_swap_gap: float = Field(default=0.02, ge=0, description="Warn when another story's latent costs less, in nats")
    min_kl: float = Field(default=0.1, ge=0, description="Warn below it, in nats a story")
    grace: float = Field(default=0.3, ge=0, le=1, description="Share of the run before warnings")
    on_alarm: Literal["warn", "stop"] = "warn"


@dataclass(frozen=True, slots=True)
class CVAEFeed:
    """Prompts and stories; noise for z is each story's own at a step, whatever the batch around it."""

    stories: StoryFeed
    dimensions: int

    def __len__(self) -> int:
        return len(self.stories)

    @property
    def sort_keys(self) -> Rows:
        return self.stories.sort_keys

    def counts(self, rows: Rows) -> Counts:
        return self.stories.counts(rows)

    def batch(self, rows: Rows, *, step: int | None) -> Batch:
        """With `latent_noise` [B, Z]; in validation z is the posterior mean."""
        batch = self.stories.batch(rows, step=step)
        noise = np.zeros((len(rows), self.dimensions), dtype=np.float32)
        if step is not None:
            for place, row in enumerate(rows):
                drawn = generator("latent", seed=self.stories.seed, step=step, story=int(row))
                noise[place] = drawn.standard_normal(self.dimensions)
        return batch | {"latent_noise": torch.from_numpy(noise)}


class CVAEObjective(Objective):
    """A BartCVAE under reconstruction and KL."""

    model: BartCVAE
    backbone_parts = ("generator", "posterior", "prompt_reader")

    def __init__(
        self,
        model: BartCVAE,
        settings: KLTerm,
        watchdog: CVAEWatchdog,
        loss: TokenPrediction,
        *,
        total: int,
    ) -> None:
        super().__init__(model)
        self.settings, self.watchdog, self.total, self.loss = settings, watchdog, total, loss
        self.terms = {"reconstruction": Term(1.0, "tokens"), "kl_penalty": Term(1.0, "tokens")}
        if loss.token_prediction > 0:
            self.terms["token_prediction"] = Term(loss.token_prediction, "tokens")
            self.token_head = TokenHead(int(model.config.backbone.hidden_size))

    def weight(self, step: int) -> float:
        """Of the KL: 0, rising, then `weight`."""
        begin, end = self.settings.silent_until * self.total, self.settings.whole_at * self.total
        if step < begin:
            return 0.0
        return self.settings.weight * (1.0 if step >= end else (step - begin) / max(1.0, end - begin))

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        """In validation at the posterior mean, and once more with every story under the latent of the next."""
        read = self.model.read(
            batch["story_ids"], batch["story_mask"], batch["prompt_ids"], batch["prompt_mask"], batch["latent_noise"]
        )
        own = self._nll(batch, read.z)
        penalty = kl_penalty(read.kl, threshold=self.settings.threshold, form=self.settings.form).sum()
        sums = {"reconstruction": own, "kl_penalty": penalty * self.weight(self.total if step is None else step)}
        if "token_prediction" in self.terms:
            left = self.loss.left(step, self.total)
            heard = left > 0 or torch.distributed.is_initialized()  # where processes wait for every gradient
            sums["token_prediction"] = left * self._token_prediction(batch, read.z) if heard else own.new_zeros(())
        return StageOutput(sums, self._tallies(batch, read.kl, read.posterior, own, validation=step is None))

    def _nll(self, batch: Batch, z: Tensor) -> Tensor:
        decoder_ids = batch.get("decoder_ids", batch["story_ids"])
        return self.model.summed_nll(batch["prompt_ids"], batch["prompt_mask"], decoder_ids, batch["labels"], z)

    def _token_prediction(self, batch: Batch, z: Tensor) -> Tensor:
        output_layer = self.model.backbone.head(self.model.generator)
        latent = self.model.latent.at_positions(z, batch["labels"].shape[1])
        summed: Tensor = self.token_head(latent, *output_layer, batch["labels"])
        return summed

    @torch.no_grad()
    def _tallies(self, batch: Batch, kl: Tensor, posterior: Gaussian, own: Tensor, *, validation: bool) -> Tallies:
        """Sums from which `figures` are made: KL by dimension, moments of the means, losses under other latents."""
        mean = posterior.mean.double()
        tallies: dict[str, Tensor] = {
            "kl": torch.cat([kl.double().sum(0), kl.new_tensor([len(kl)], dtype=torch.float64)]),
            "moments": torch.stack([mean.sum(0), mean.square().sum(0)]),
        }
        if validation:
            other = self._nll(batch, posterior.mean.roll(1, 0))
            tallies["swapped"] = swapped_losses(other, own, batch["labels"])
        return tallies

    def figures(self, tallies: Tallies) -> Figures:
        sums, count = tallies["kl"][:-1], max(1.0, float(tallies["kl"][-1]))
        per_dimension = sums / count
        first, second = tallies["moments"] / count
        variance = (second - first.square()) * count / max(1.0, count - 1)
        return {
            "kl": float(per_dimension.sum()),
            "kl_floor": self.settings.threshold * len(sums) if self.settings.form == "dimension" else 0.0,
            "dimensions_below_threshold": float((per_dimension < self.settings.threshold).sum()),
            "active_units": float((variance >= ACTIVE_VARIANCE).sum()),
            "latent_dimensions": float(len(sums)),
        } | swap_gap(tallies)

    def schedule(self, step: int) -> Figures:
        return {"kl_weight": self.weight(step)}

    def alarms(self, step: int, figures: Figures) -> list[str]:
        if step < self.watchdog.grace * self.total or step == 0:
            return []
        return latent_alarms(figures, min_swap_gap=self.watchdog.min_swap_gap, min_kl=self.watchdog.min_kl)


class CVAE(FromScratch):
    summary = (
        "A conditional VAE: stories under one Gaussian latent, drawn from a prior network of the prompt (BART-CVAE)."
    )

    stage: Literal["cvae"]
    model: CVAEModel = CVAEModel()
    kl: KLTerm = KLTerm()
    loss: TokenPrediction = TokenPrediction()
    word_dropout: WordDropout = WordDropout()
    validation: LossValidation = LossValidation()
    watchdog: CVAEWatchdog = CVAEWatchdog()

    def contradictions(self) -> list[str]:
        wrong = super().contradictions()
        if self.kl.whole_at and self.kl.whole_at < self.kl.silent_until:
            wrong.append(f"kl.whole_at: {self.kl.whole_at} comes before kl.silent_until {self.kl.silent_until}")
        return wrong

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model = self._model(corpus.tokenizer, site)
        total = self.total(len(corpus.train))
        dropout = DropoutSchedule.over(total, self.word_dropout)
        train, valid = (
            CVAEFeed(feed, model.config.latent_dimensions)
            for feed in corpus.story_feeds(seed=self.seed, dropout=dropout)
        )
        if site.last is None:
            order = in_order(train.sort_keys, 16, stories=STORIES_TO_START)
            batches = (train.batch(rows, step=None) for rows in order)
            model.tell_apart((batch["story_ids"], batch["story_mask"]) for batch in batches)
        objective = CVAEObjective(model, self.kl, self.watchdog, self.loss, total=total)
        if site.last is not None and self.loss.token_prediction > 0:
            objective.token_head.load(Checkpoint.open(site.last).weights())

        def measure() -> Figures:
            return information(model, valid, device=site.accelerator.device, seed=self.seed)

        stop = self.watchdog.on_alarm == "stop"
        return self.staged(
            objective,
            train,
            valid,
            corpus,
            stop_on_alarm=stop,
            measure=measure,
            score=lambda step, figures: figures["reconstruction"] + figures["kl_penalty"],
        )

    def _model(self, tokenizer: PreTrainedTokenizerBase, site: Site) -> BartCVAE:
        if site.last is not None:
            resumed: BartCVAE = Checkpoint.open(site.last).load(BartCVAE)
            return resumed
        backbone: Any = language_model(self.model, tokenizer, None)
        sizes = {"latent_dimensions": self.model.latent_dimensions, "posterior_layers": self.model.posterior_layers}
        if not backbone.config.is_encoder_decoder:
            sizes["separator_token_id"] = tokenizer.sep_token_id
        return BartCVAE.from_backbone(backbone, config=story_start(backbone.config), **sizes)


def story_start(config: Any) -> Any:
    """A backbone's configuration as DiscoDVT has it: a BART starts with `<s>`, and no end is forced."""
    from discodvt.model.configuration import DiscoDVTConfig

    return DiscoDVTConfig.from_backbone_config(config).backbone


@torch.no_grad()
def information(model: BartCVAE, feed: CVAEFeed, *, device: torch.device, seed: int) -> Figures:
    """Mutual information of stories and z, and the NLL per token under draws of the prior, over a split."""
    model.eval()
    posteriors, nll, tokens, count = [], 0.0, 0, 0
    for rows in in_order(feed.sort_keys, 16, stories=MOST_FOR_INFORMATION):
        batch = on_device(feed.batch(rows, step=None), device)
        read = model.read(
            batch["story_ids"], batch["story_mask"], batch["prompt_ids"], batch["prompt_mask"], batch["latent_noise"]
        )
        posteriors.append(read.posterior)
        drawn = torch.Generator().manual_seed(seed + count)
        noise = torch.randn(read.z.shape, generator=drawn).to(device)
        z = read.prior.sample(noise)
        nll += float(
            model.summed_nll(batch["prompt_ids"], batch["prompt_mask"], batch["story_ids"], batch["labels"], z)
        )
        tokens += int((batch["labels"] != -100).sum())
        count += len(rows)
    model.train()
    posterior = Gaussian(*(torch.cat(parts) for parts in zip(*posteriors, strict=True)))
    noise = torch.randn(posterior.mean.shape, generator=torch.Generator().manual_seed(seed)).to(device)
    return {
        "mutual_information": mutual_information(posterior, noise),
        "most_mutual_information": math.log(max(1, count)),
        "nll_at_prior": nll / max(1, tokens),
    }
