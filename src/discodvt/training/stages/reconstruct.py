"""Stage `reconstruct`: a DiscoDVT reads stories into codes and writes them back (sections 3.2, 3.3 and 3.5).

Stage `warm-start` is the same on contiguous text, without prompts and relations; `codes` has its recipe from here too.
"""

from typing import ClassVar, Literal

from discodvt.checkpoints import Checkpoint
from discodvt.config import ConstantRate, LatentModel, WordDropout
from discodvt.errors import BadRequest
from discodvt.model.bottlenecks import Bottleneck, bottleneck_class
from discodvt.training.assembly import Corpus, Site
from discodvt.training.feeds import DropoutSchedule, Noise, WeakPlans
from discodvt.training.latent_objective import (
    CodeLoss,
    DeadCodeRestart,
    LatentObjective,
    RelationLoss,
    Relaxation,
    TemperatureSchedule,
    WeakPlanShare,
)
from discodvt.training.parts import TunedRecipe, begin_part
from discodvt.training.stages import Figures, Stage
from discodvt.training.validation import USES_CODES, USES_PLAN, Watchdog, WatchdogLimits, written_bleu_1
from discodvt.training.weights import plan_model, prior_model

__all__ = ["LatentObjective", "LatentRecipe", "Reconstruct", "RelationLoss", "TemperatureSchedule", "WarmStart"]

NEEDS_PROBABILITIES = (
    "loss.entropy",
    "loss.batch_entropy",
    "loss.position_entropy",
    "loss.prior",
    "relaxation.noise_free",
)


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
            total=total,
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


class ConstantTemperature(Relaxation):
    decay_rate: float = 0.0


class WarmStart(LatentRecipe):
    summary = "A DiscoDVT warmed up on contiguous text: codes and reconstruction, no prompts, no relations."
    reads_prompts = False

    stage: Literal["warm-start"]
    optimizer: ConstantRate = ConstantRate()
    relaxation: ConstantTemperature = ConstantTemperature()
