"""Stage `reconstruct`: a DiscoDVT reads stories into codes and writes them back (sections 3.2, 3.3 and 3.5).

`LatentRecipe` and `LatentObjective` are also those of `warm-start` and `codes`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from discodvt.checkpoints import Checkpoint
from discodvt.config import LatentModel, Section, WordDropout
from discodvt.data.batches import NO_LABEL, Batch
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.bottlenecks import Bottleneck, bottleneck_class
from discodvt.model.discodvt import PosteriorOutput
from discodvt.model.prior import Prior
from discodvt.training import losses
from discodvt.training.assembly import Corpus, Site
from discodvt.training.feeds import DropoutSchedule, Noise, WeakPlans
from discodvt.training.loop import step_seed
from discodvt.training.parts import TunedRecipe, begin_part
from discodvt.training.sharding import whole_weights
from discodvt.training.stages import Figures, Objective, Stage, StageOutput, Tallies, Term
from discodvt.training.validation import (
    USES_CODES,
    USES_PLAN,
    Watchdog,
    WatchdogLimits,
    code_counts,
    code_usage,
    marker_hits,
    written_bleu_1,
)
from discodvt.training.weights import plan_model, prior_model

NEEDS_PROBABILITIES = (
    "loss.entropy",
    "loss.batch_entropy",
    "loss.position_entropy",
    "loss.prior",
    "relaxation.noise_free",
)


class CodeLoss(Section):
    """Weight of the paper's entropy term (section 3.5), and of terms that are not in the paper."""

    entropy: float = Field(default=0.1, ge=0)
    batch_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the codes of a whole micro-batch, maximised: use all of them"
    )
    position_entropy: float = Field(
        default=0.0, ge=0, description="Entropy of the code distribution at each position, minimised: be certain"
    )
    token_prediction: float = Field(default=0.0, ge=0, description="Story tokens predicted from the latent alone")
    token_prediction_until: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Share of the run over which `token_prediction` falls to 0; none: it stays",
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
        token_prediction_steps: float = math.inf,
        prior: Prior | None = None,
        watchdog: Watchdog | None = None,
        restart: DeadCodeRestart | None = None,
    ) -> None:
        super().__init__(model)
        self.temperature, self.watchdog, self.restart = temperature, watchdog, restart
        self.codes_stay, self.token_prediction_steps = tune == "generator", token_prediction_steps
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
            left = 1.0 if step is None else max(0.0, 1 - step / self.token_prediction_steps)
            sums["token_prediction"] = left * self._token_prediction(batch, latent) if left else latent.new_zeros(())
        tallies = {"codes": code_counts(reading.codes, model.config.num_codes)}
        if "relation" in self.terms:
            logits = model.relation_head(latent, batch["pooling"], batch["pairs"])
            sums["relation"] = losses.relation(logits, batch["relations"])
            if validation:
                tallies["relations"] = marker_hits(logits, batch["relations"])
        if validation:
            other = model.latent(reading.codes.roll(1, 0), latent.shape[1])
            tallies["swapped"] = self._swapped(batch, other, own=sums["reconstruction"])
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

    @torch.no_grad()
    def _swapped(self, batch: Batch, latent: Tensor, *, own: Tensor) -> Tensor:
        """Loss under another story's plan, under its own, and tokens [3]; a story alone has nobody to swap with."""
        tokens = (batch["labels"] != -100).sum()
        swapped = torch.stack([self._reconstruction(batch, latent).double(), own.detach().double(), tokens.double()])
        return swapped if len(latent) > 1 else torch.zeros_like(swapped)

    def figures(self, tallies: Tallies) -> Figures:
        figures = code_usage(tallies["codes"])
        if "swapped" in tallies:
            other, own, tokens = tallies["swapped"].tolist()
            figures["swap_gap"] = (other - own) / max(1.0, tokens)
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


class LatentRecipe(TunedRecipe):
    """What the stages that train codes have in common."""

    model: LatentModel = LatentModel()
    loss: CodeLoss = CodeLoss()
    relaxation: Relaxation = Relaxation()
    word_dropout: WordDropout = WordDropout()
    weak_plans: WeakPlanShare = WeakPlanShare()
    watchdog: WatchdogLimits = WatchdogLimits()

    objective: ClassVar[type[LatentObjective]] = LatentObjective

    def contradictions(self) -> list[str]:
        wrong = super().contradictions()
        try:
            kind = bottleneck_class(self.model.bottleneck)
        except ValueError as error:
            return [*wrong, f"model.bottleneck: {error}"]
        if self.loss.prior > 0 and self.model.tune == "generator":
            wrong.append("loss.prior: codes stay as they are with model.tune = generator; set it to 0")
        if self.weak_plans.share > 0 and self.model.tune != "generator":
            wrong.append("weak_plans.share: for codes that stay; set model.tune=generator, or weak_plans.share=0")
        problem = kind.problem(self.model.num_codes, self.model.code_levels)
        wrong += [f"model.num_codes: {problem}"] if problem else []
        return wrong + self._unsuited(kind, f"{self.model.bottleneck} codes")

    def _unsuited(self, kind: type[Bottleneck] | Bottleneck, codes: str) -> list[str]:
        """What the recipe asks of a bottleneck that it cannot give."""
        wrong = []
        if self.watchdog.restart_dead_codes and not kind.restartable:
            wrong.append(f"watchdog.restart_dead_codes: {codes} have nothing to restart; switch it off")
        if not kind.probabilistic:
            keys = [key for key in NEEDS_PROBABILITIES if self.value(key) > 0]
            wrong += [f"{key}: {codes} have no probabilities; set {key}=0" for key in keys]
        return wrong

    def build(self, corpus: Corpus, site: Site) -> Stage:
        model = plan_model(self.model, corpus.tokenizer, site.last)
        wrong = self._unsuited(model.bottleneck, f"the {model.config.bottleneck} codes of {self.model.init}")
        if wrong:
            raise BadRequest("; ".join(wrong))
        total = self.total(len(corpus.train))
        noise = Noise(
            model.config.tokens_per_code, model.bottleneck.noise_width, round(self.relaxation.noise_free * total)
        )
        dropout = DropoutSchedule.over(total, self.word_dropout)
        weak, config = self.weak_plans, model.config
        weak_plans = WeakPlans(
            config.tokens_per_code, config.num_codes, weak.share, (weak.min_strength, weak.max_strength)
        )
        train, valid = corpus.story_feeds(
            seed=self.seed, dropout=dropout, noise=noise, weak_plans=weak_plans if weak.share else None
        )
        fades = self.loss.token_prediction_until
        source = site.last or self.model.init
        prior = None
        if self.loss.prior > 0:
            longest = -(-self.data.story_tokens // model.config.tokens_per_code)
            prior = prior_model(model, self.model, layers=self.model.prior_layers, max_codes=longest, source=source)
        objective = self.objective(
            model,
            self.loss,
            temperature=TemperatureSchedule.over(total, self.relaxation),
            tune=self.model.tune,
            token_prediction_steps=math.inf if fades is None else fades * total,
            prior=prior,
            watchdog=Watchdog(
                self.watchdog,
                grace_steps=round(self.watchdog.grace * total),
                settings={
                    key: self.value(key)
                    for key in (*USES_PLAN, *USES_CODES)
                    if model.bottleneck.probabilistic or key not in (*NEEDS_PROBABILITIES, "model.code_logit_gain")
                },
                restartable=model.bottleneck.restartable,
            ),
            restart=DeadCodeRestart(self.seed, 0.8 * total) if self.watchdog.restart_dead_codes else None,
        )

        objective.part = begin_part(
            model.generator, self.model, tune=self.model.tune, lora=self.lora, inside="generator.", last=site.last
        )

        def measure() -> Figures:
            """BLEU-1 of stories written under the plans of real ones, for the choice of the best checkpoint."""
            score = written_bleu_1(
                model,
                valid,
                corpus.tokenizer,
                stories=self.validation.bleu_stories,
                stories_per_batch=self.validation.stories_per_batch,
                device=site.accelerator.device,
                seed=self.seed,
            )
            return {"bleu_1": score}

        if hasattr(objective, "token_head") and source is not None:
            objective.token_head.load(Checkpoint.open(source).weights())
        by_bleu = self.validation.select_by == "bleu-1"
        return self.staged(
            objective,
            train,
            valid,
            corpus,
            stop_on_alarm=self.watchdog.on_alarm == "stop",
            measure=measure if by_bleu else None,
            score=(lambda step, figures: -figures["bleu_1"]) if by_bleu else None,
        )


class Reconstruct(LatentRecipe):
    summary = "A DiscoDVT: a posterior that reads stories into codes and a generator that writes under them."

    stage: Literal["reconstruct"]
    loss: RelationLoss = RelationLoss()

    @property
    def reads_relations(self) -> bool:
        return self.loss.relation > 0
