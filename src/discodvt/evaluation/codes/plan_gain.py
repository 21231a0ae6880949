"""What plans gain on held-out stories: reconstruction, relations and the prior, each figure with an interval.

Everything measured here is made of sums over stories divided by one another (nats by tokens, hits by pairs), so the
sums of each story are enough for a percentile bootstrap over stories; figures of two systems take the same resamples,
and their difference is paired. Each group returns figures by name, and the facts needed to read them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from operator import sub
from typing import Any

import numpy as np
from transformers import PreTrainedModel

from discodvt import __version__
from discodvt.data.tokens import Ragged, Tokens
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest, WorkFailed
from discodvt.evaluation.codes.code_bigram import fit_models
from discodvt.evaluation.codes.inference import (
    EduPairs,
    Planner,
    exchanged,
    marker_pairs,
    plans_of,
    prior_losses,
    story_losses,
)
from discodvt.evaluation.codes.probe import probe, right_answers
from discodvt.evaluation.intervals import LEVEL, Resampler
from discodvt.evaluation.metric import Direction, Floats, Weights, too_few
from discodvt.model.prior import Prior

Figure = dict[str, Any]
Combine = Callable[..., Any]
Group = tuple[dict[str, Figure], dict[str, Any]]  # figures and facts


@dataclass(frozen=True, slots=True)
class Ratio:
    """Sums over stories, one divided by the other: each story's share of both [N]."""

    above: Floats
    below: Floats

    @property
    def value(self) -> float:
        return float(self.above.sum() / self.below.sum())

    def under(self, weights: Weights) -> Floats:
        """The ratio under each resample: weights [resamples, N] to [resamples].

        A resample without anything to divide by (no pair in any of its stories) takes the ratio of all stories.
        """
        below = weights @ self.below
        return np.where(below > 0, (weights @ self.above) / np.where(below > 0, below, 1), self.value)


@dataclass(frozen=True, slots=True)
class Measured:
    """Makes figures over one set of stories and one set of resamples."""

    resampler: Resampler

    def figure(
        self,
        meaning: str,
        *ratios: Ratio,
        unit: str,
        direction: Direction = "none",
        combine: Combine = lambda one: one,
        few: str | None = None,
    ) -> Figure:
        """`combine` of the ratios (a difference, an exponential), its interval under common resamples.

        `few` says what it has too little of. A figure that is not a finite number is refused: JSON has none.
        """
        value, low, high = float(combine(*(ratio.value for ratio in ratios))), None, None
        if not math.isfinite(value):
            raise WorkFailed(f"{meaning}: the model gives no finite number; look at its weights and its training log")
        if self.resampler.possible:
            replicates = [np.concatenate(parts) for parts in zip(*self._under(ratios), strict=True)]
            low, high = np.quantile(combine(*replicates), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
        stories = len(self.resampler.unit)
        return {
            "value": value,
            "low": low,
            "high": high,
            "n": stories,
            "unit": unit,
            "direction": direction,
            "signature": f"{meaning}|n:{stories}|{self.resampler.signature('bootstrap')}|discodvt:{__version__}",
            **({"too_few": few} if few else {}),
        }

    def _under(self, ratios: tuple[Ratio, ...]) -> list[list[Floats]]:
        """Each block of resamples, as the values of all ratios."""
        return [[ratio.under(weights) for ratio in ratios] for weights in self.resampler.weights("bootstrap")]


def perplexity_ratio(one: Any, other: Any) -> Any:
    """One perplexity divided by the other, from their nats."""
    return np.exp(one - other)


@dataclass(frozen=True, slots=True)
class Stories:
    """Stories of a split with their plans."""

    planner: Planner
    tokens: Tokens
    plans: Ragged

    def per_token(self, losses: Floats) -> Ratio:
        return Ratio(losses, self.tokens.story_lengths.astype(np.float64))

    def per_code(self, losses: Floats) -> Ratio:
        return Ratio(losses, self.plans.lengths.astype(np.float64))

    def per_pair(self, hits: Floats, pairs: EduPairs) -> Ratio:
        count = len(self.tokens)
        return Ratio(
            np.bincount(pairs.story, hits, minlength=count).astype(np.float64),
            np.bincount(pairs.story, minlength=count).astype(np.float64),
        )


def reconstruction(held: Stories, plain: PreTrainedModel | None, measured: Measured) -> Group:
    """Nats per token at argmax codes, with another story's plan, and of a plain language model on the same tokens."""
    model = held.planner.model
    loss: dict[str, Any] = {"unit": "nats per token", "direction": "lower"}
    gain: dict[str, Any] = {"unit": "nats per token", "direction": "higher", "combine": sub}
    other = exchanged(held.plans, held.tokens.story_lengths)
    own, swapped = (held.per_token(story_losses(model, held.tokens, plans)) for plans in (held.plans, other))
    found = {
        "nll": measured.figure("-log p(token) at argmax codes", own, **loss),
        "nll_swapped": measured.figure("-log p(token) under the plan of a story of similar length", swapped, **loss),
        "swap_gap": measured.figure("nll_swapped - nll, paired", swapped, own, **gain),
    }
    if plain is not None:
        without = held.per_token(story_losses(model, held.tokens, None, plain=plain))
        found["nll_plain"] = measured.figure("-log p(token) of a seq2seq without a plan", without, **loss)
        found["nll_gain"] = measured.figure("nll_plain - nll, paired", without, own, **gain)
    return found, {}


def relations(held: Stories, train: Stories, plain: Planner | None, measured: Measured, *, seed: int) -> Group:
    """Accuracy among the 20 marker labels: of the model's own head, of the commonest label, of fresh heads."""
    seen, asked = (marker_pairs(stories.planner, stories.tokens, stories.plans) for stories in (train, held))
    if len(asked.labels) == 0 or len(seen.labels) == 0:
        raise BadRequest("no two EDUs joined by a marker in the stories read; annotate the corpus again")
    few = too_few({"pairs": len(asked.labels)}, "marker pairs").get("pairs")
    share: dict[str, Any] = {"unit": "fraction", "direction": "higher", "few": few}
    gain = share | {"combine": sub}
    majority = int(seen.labels.bincount().argmax())
    width = held.planner.model.config.relation_width
    own = held.per_pair(right_answers(held.planner.model.relation_head, asked), asked)
    common = held.per_pair((asked.labels == majority).double().numpy(), asked)
    fresh = probe(seen, asked, relation_width=width, seed=seed)
    probed = held.per_pair(fresh.hits, asked)
    facts = {
        "marker_pairs": len(asked.labels),
        "majority_label": LABELS[majority],
        "probe_training_pairs": len(seen.labels),
        "probe_steps": fresh.steps,
        "probe_converged": fresh.converged,
    }
    found = {
        "relation_accuracy": measured.figure("own head, argmax among marker labels", own, **share),
        "majority_accuracy": measured.figure("the commonest marker label of the training stories", common, **share),
        "relation_gain": measured.figure("relation_accuracy - majority_accuracy, paired", own, common, **gain),
        "probe_accuracy": measured.figure("fresh head on frozen argmax plans", probed, **share),
    }
    if plain is not None:
        pairs = (marker_pairs(plain, each.tokens, plans_of(plain, each.tokens)) for each in (train, held))
        other = probe(*pairs, relation_width=width, seed=seed)
        without = held.per_pair(other.hits, asked)
        facts |= {"probe_plain_steps": other.steps, "probe_plain_converged": other.converged}
        found["probe_accuracy_plain"] = measured.figure(
            "the same probe on a model without relation loss", without, **share
        )
        found["probe_gain"] = measured.figure("probe_accuracy - probe_accuracy_plain, paired", probed, without, **gain)
    return found, facts


def prior(held: Stories, model: Prior, train_plans: Ragged, measured: Measured) -> Group:
    """Perplexity over codes of the prior, and of a unigram and a bigram fitted on training plans."""
    perplexity: dict[str, Any] = {"unit": "perplexity", "direction": "lower", "combine": np.exp}
    ratio: dict[str, Any] = {"unit": "ratio", "direction": "lower", "combine": perplexity_ratio}
    single, double = fit_models(train_plans, held.planner.model.config.num_codes)
    losses = (
        *prior_losses(model, held.tokens, held.plans, device=held.planner.device),
        single.losses(held.plans),
        double.losses(held.plans),
    )
    codes_only, with_end, unigram, bigram = map(held.per_code, losses)
    found = {
        "prior_perplexity": measured.figure("prior, among codes alone, ends not counted", codes_only, **perplexity),
        "prior_perplexity_rivalled": measured.figure(
            "prior, the end of the plan a rival of every code, ends not counted", with_end, **perplexity
        ),
        "unigram_perplexity": measured.figure("unigram of training plans", unigram, **perplexity),
        "bigram_perplexity": measured.figure("bigram of training plans, smoothed", bigram, **perplexity),
        "prior_to_unigram": measured.figure(
            "prior_perplexity / unigram_perplexity, paired", codes_only, unigram, **ratio
        ),
        "prior_to_bigram": measured.figure("prior_perplexity / bigram_perplexity, paired", codes_only, bigram, **ratio),
    }
    facts = {
        "code_model_plans": len(train_plans),
        "unigram_strength": single.strength,
        "bigram_strength": double.strength,
    }
    return found, facts
