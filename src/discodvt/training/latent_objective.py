"""The objective of stages that train codes: a DiscoDVT under reconstruction, entropy and relation losses (section 3.5).

With it come the sections of a recipe that it reads, and the schedules that follow from them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from discodvt.config import Section
from discodvt.data.batches import NO_LABEL, Batch
from discodvt.model import DiscoDVT
from discodvt.model.discodvt import PosteriorOutput
from discodvt.model.prior import Prior
from discodvt.training import losses
from discodvt.training.sharding import whole_weights
from discodvt.training.stages import Figures, Objective, StageOutput, Tallies, Term, step_seed
from discodvt.training.validation import Watchdog, code_counts, code_usage, marker_hits, swap_gap, swapped_losses


class TokenPrediction(Section):
    """A term that is not in the paper: the shortest way for words to reach a latent (`losses.TokenHead`)."""

    token_prediction: float = Field(default=0.0, ge=0, description="Story tokens predicted from the latent alone")
    token_prediction_until: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Share of the run over which `token_prediction` falls to 0; none: it stays",
    )

    def left(self, step: int | None, total: int) -> float:
        """The share of its weight at a step of a run; all of it in validation."""
        if step is None or self.token_prediction_until is None:
            return 1.0
        return max(0.0, 1 - step / (self.token_prediction_until * total))


class CodeLoss(TokenPrediction):
    """Weight of the paper's entropy term (section 3.5), and of terms that are not in the paper."""

    entropy: float = Field(default=0.1, ge=0)
    batch_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the codes of a whole micro-batch, maximised: use all of them"
    )
    position_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the code distribution at each position, minimised: be certain"
    )
    prior: float = Field(
        default=0.0,
        ge=0,
        description="Codes in the eyes of a prior that learns beside them; 1 / tokens a code makes it the ELBO's",
    )


class RelationLoss(CodeLoss):
    relation: float = Field(default=0.1, ge=0, description="Codes are supervised with discourse relations")


class Relaxation(Section):
    """How soft and how noisy codes are while they are learned (equation 3)."""

    temperature: float = Field(default=0.9, gt=0, description="At the first step")
    min_temperature: float = Field(default=0.1, gt=0)
    decay_rate: float = Field(
        default=4e-4,
        ge=0,
        description="temperature * exp(-decay_rate * step); the paper's 1e-4 counts micro-batches, 4 a step",
    )
    min_temperature_at: float | None = Field(
        default=None, gt=0, le=1, description="Instead of `decay_rate`: share of the run that ends at min_temperature"
    )
    noise_free: float = Field(
        default=0.0, ge=0, le=1, description="Share of the run, at its start, without Gumbel noise"
    )

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.min_temperature > self.temperature:
            raise ValueError(f"min_temperature {self.min_temperature} is above temperature {self.temperature}")
        return self


class WeakPlanShare(Section):
    """Plans the generator learns to distrust, so that it also writes well along plans that do not fit what it wrote."""

    share: float = Field(default=0.0, ge=0, le=1, description="Stories with a weak plan")
    min_strength: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="Least strength of such a plan: what its latent is multiplied by, and the share of its codes that"
        " are the story's own; the others are random",
    )
    max_strength: float = Field(default=0.6, ge=0, le=1, description="Strengths are drawn between both")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_strength > self.max_strength:
            raise ValueError(f"min_strength {self.min_strength} is above max_strength {self.max_strength}")
        return self


@dataclass(frozen=True, slots=True)
class TemperatureSchedule:
    """The temperature of the codes (section 4.2), a pure function of the step."""

    start: float
    minimum: float
    decay_rate: float

    @classmethod
    def over(cls, total: int, relaxation: Relaxation) -> "TemperatureSchedule":
        """With `min_temperature_at`, the rate that reaches the minimum at that share of the run."""
        start, minimum, rate = relaxation.temperature, relaxation.min_temperature, relaxation.decay_rate
        if relaxation.min_temperature_at is not None:
            rate = math.log(start / minimum) / (relaxation.min_temperature_at * max(1, total))
        return cls(start, minimum, rate)

    def __call__(self, step: int) -> float:
        return max(self.minimum, self.start * math.exp(-self.decay_rate * step))


@dataclass(frozen=True, slots=True)
class DeadCodeRestart:
    """Give unused codes a new start, until a step."""

    seed: int
    until_step: float

    def __call__(self, model: DiscoDVT, step: int, counts: Tensor) -> list[str]:
        """Each unused code beside one of the most used; the same on every process. Counts are of a validation [K]."""
        dead = torch.nonzero(counts == 0).flatten()
        if not len(dead) or not 0 < step < self.until_step:
            return []
        used = counts.argsort(descending=True, stable=True)[: len(counts) - len(dead)]
        busy = used[torch.arange(len(dead), device=used.device) % len(used)]
        model.bottleneck.restart(dead, busy, generator=torch.Generator().manual_seed(step_seed(self.seed, step, 0)))
        return [f"{len(dead)} dead codes restarted"]


NOT_TRAINED: dict[str, tuple[str, ...]] = {  # by `model.tune`
    "all": (),
    "lora": ("generator",),  # but for LoRA in it
    "plan": ("generator",),
    "generator": ("posterior", "down", "bottleneck"),
}


class LatentObjective(Objective):
    """A DiscoDVT under reconstruction, entropy and relation losses."""

    model: DiscoDVT
    backbone_parts = ("generator", "posterior")

    def __init__(
        self,
        model: DiscoDVT,
        weights: CodeLoss,
        *,
        temperature: TemperatureSchedule,
        tune: str = "all",
        total: int = 1,
        prior: Prior | None = None,
        watchdog: Watchdog | None = None,
        restart: DeadCodeRestart | None = None,
    ) -> None:
        super().__init__(model)
        self.temperature, self.watchdog, self.restart = temperature, watchdog, restart
        self.codes_stay, self.weights, self.total = tune == "generator", weights, total
        self.not_trained = NOT_TRAINED[tune]
        self.terms = {"reconstruction": Term(1.0, "tokens")}
        if not self.codes_stay:
            if model.bottleneck.probabilistic:
                self.terms["entropy"] = Term(-weights.entropy, "stories")
            if model.bottleneck.auxiliary_weight > 0:
                self.terms["bottleneck"] = Term(model.bottleneck.auxiliary_weight, "stories")
            if weights.batch_entropy > 0:
                self.terms["batch_entropy"] = Term(-weights.batch_entropy, "stories")
            if weights.position_entropy > 0:
                self.terms["position_entropy"] = Term(weights.position_entropy, "stories")
            if prior is not None:
                self.terms["prior"] = Term(weights.prior, "codes")
                self.prior = prior  # a part of training, as the token head; the stage `prior` goes on with it
        if weights.token_prediction > 0:
            self.terms["token_prediction"] = Term(weights.token_prediction, "tokens")
            self.add_token_head()
        if isinstance(weights, RelationLoss) and weights.relation > 0:
            self.terms["relation"] = Term(weights.relation, "pairs")
        else:
            self.not_trained += ("relation_head",)

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        """In validation at argmax codes, and once more with every story under the plan of the next in the batch."""
        model, validation = self.model, step is None
        temperature = None if step is None else self.temperature(step)
        if self.codes_stay:
            codes = model.plan(batch["story_ids"], batch["story_mask"])
            reading = PosteriorOutput(
                codes, None, codes < model.config.num_codes, model.latent(codes, batch["story_ids"].shape[1])
            )
        else:
            reading = model.read(
                batch["story_ids"], batch["story_mask"], temperature=temperature, noise=batch.get("noise")
            )
        latent = reading.latent
        sums = {"reconstruction": self._reconstruction(batch, self._weakened(batch, reading))}
        if reading.probabilities is not None:
            sums["entropy"] = losses.code_entropy(reading.probabilities, reading.mask).sum()
            if "batch_entropy" in self.terms:
                sums["batch_entropy"] = losses.batch_entropy(reading.probabilities, reading.mask) * len(reading.codes)
            if "position_entropy" in self.terms:
                sums["position_entropy"] = losses.position_entropy(reading.probabilities, reading.mask).sum()
            if "prior" in self.terms:
                sums["prior"] = self._rate(batch, reading, reading.probabilities, certain=validation)
        if reading.auxiliary is not None:
            sums["bottleneck"] = reading.auxiliary.sum()
        if "token_prediction" in self.terms:
            left = self.weights.left(step, self.total)
            heard = left > 0 or torch.distributed.is_initialized()  # where processes wait for every gradient
            sums["token_prediction"] = left * self._token_prediction(batch, latent) if heard else latent.new_zeros(())
        tallies = {"codes": code_counts(reading.codes, model.config.num_codes)}
        if "relation" in self.terms:
            logits = model.relation_head(latent, batch["pooling"], batch["pairs"])
            sums["relation"] = losses.relation(logits, batch["relations"])
            if validation:
                tallies["relations"] = marker_hits(logits, batch["relations"])
        if validation:
            with torch.no_grad():
                other = self._reconstruction(batch, model.latent(reading.codes.roll(1, 0), latent.shape[1]))
            tallies["swapped"] = swapped_losses(other, sums["reconstruction"], batch["labels"])
        return StageOutput(sums, tallies)

    def _weakened(self, batch: Batch, reading: PosteriorOutput) -> Tensor:
        """The latent the generator gets: that of the plan, or a weaker one with some codes that are not the story's."""
        if "plan_strength" not in batch:
            return reading.latent
        codes = torch.where(batch["other_codes"] < 0, reading.codes, batch["other_codes"])
        return self.model.latent(codes, reading.latent.shape[1]) * batch["plan_strength"][:, None, None]

    def _reconstruction(self, batch: Batch, latent: Tensor) -> Tensor:
        decoder_ids = batch.get("decoder_ids", batch["story_ids"])
        states = self.model.decode(
            batch["prompt_ids"], batch["prompt_mask"], decoder_ids, latent, use_cache=False
        ).last_hidden_state
        return self.model.summed_loss(states, batch["labels"])

    def _rate(self, batch: Batch, reading: PosteriorOutput, probabilities: Tensor, *, certain: bool) -> Tensor:
        """What codes cost under the prior, after argmax codes; if `certain`, the argmax codes themselves."""
        bos = reading.codes.new_full((len(reading.codes), 1), self.prior.config.bos_token_id)
        before = torch.cat([bos, reading.codes[:, :-1]], dim=1)
        logits = self.prior(batch["prompt_ids"], batch["prompt_mask"], decoder_input_ids=before, use_cache=False).logits
        if certain:
            return losses.prior(logits, reading.codes.masked_fill(~reading.mask, NO_LABEL))
        return losses.rate(logits, probabilities, reading.mask)

    def add_token_head(self) -> None:
        """A part of training only; it is saved with the model, and whoever opens that leaves it aside."""
        self.token_head = losses.TokenHead(self.model.config.hidden_size)

    def _token_prediction(self, batch: Batch, latent: Tensor) -> Tensor:
        output_layer = self.model.backbone.head(self.model.generator)
        summed: Tensor = self.token_head(latent, *output_layer, batch["labels"])
        return summed

    def figures(self, tallies: Tallies) -> Figures:
        figures = code_usage(tallies["codes"]) | swap_gap(tallies)
        right, labelled = tallies["relations"].tolist() if "relations" in tallies else (0, 0)
        return figures | ({"relation_accuracy": right / labelled} if labelled else {})

    def schedule(self, step: int) -> Figures:
        return {"temperature": self.temperature(step)}

    def alarms(self, step: int, figures: Figures) -> list[str]:
        return [] if self.watchdog is None else self.watchdog.alarms(step, figures)

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        self.model.bottleneck.after_step(gather)

    def after_validation(self, step: int, tallies: Tallies) -> list[str]:
        if self.restart is None:
            return []
        with whole_weights(self.model.bottleneck):
            return self.restart(self.model, step, tallies["codes"])
