"""Validation: losses over held-out rows, and what is looked at besides: codes in use, whether the plan is, BLEU-1.

A model can train with a falling loss and still ignore its plan (posterior collapse). The watchdog says so, and what to
try: it looks at code usage and at what another story's plan costs, the proof that the generator uses its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from accelerate import Accelerator
from pydantic import Field
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from discodvt.config import Section
from discodvt.corpus.words import bleu_1
from discodvt.data.batches import NO_LABEL, Batch, Rows, in_order
from discodvt.model import DiscoDVT
from discodvt.training.sharding import reshard
from discodvt.training.stages import Feed, Figures, Objective, Tallies


@torch.no_grad()
def validate(module: Objective, feed: Feed, *, accelerator: Accelerator, batch_size: int) -> tuple[Figures, Tallies]:
    """Means of every term over a split and what its tallies say; the work is shared by all processes."""
    objective: Objective = accelerator.unwrap_model(module)
    module.eval()
    device = accelerator.device
    sums = {name: torch.zeros((), device=device, dtype=torch.float64) for name in objective.terms}
    tallies: Tallies = {}
    for rows, counted in _share(in_order(feed.sort_keys, batch_size), accelerator):
        with accelerator.autocast():
            output = module(
                on_device(feed.batch(rows, step=None), device)
            )  # every process calls as often as every other
        for name in sums:
            sums[name] += output.sums[name].double() if counted else 0.0
        add_tallies(tallies, {name: tally if counted else tally.zero_() for name, tally in output.tallies.items()})
    counts = feed.counts(in_order(feed.sort_keys, len(feed))[0])
    figures = {
        name: float(accelerator.reduce(sums[name])) / max(1, counts[term.per]) for name, term in objective.terms.items()
    }
    tallies = {name: accelerator.reduce(tally) for name, tally in tallies.items()}
    reshard(module)
    module.train()
    return figures | objective.figures(tallies), tallies


def _share(batches: Sequence[Rows], accelerator: Accelerator) -> list[tuple[Rows, bool]]:
    """This process's batches; where it has fewer than others it repeats one, which does not count."""
    mine = [(rows, True) for rows in batches[accelerator.process_index :: accelerator.num_processes]]
    most = -(-len(batches) // accelerator.num_processes)
    return mine + [(batches[0], False)] * (most - len(mine))


def add_tallies(tallies: Tallies, more: Mapping[str, Tensor]) -> None:
    for name, tally in more.items():
        tallies[name] = tallies[name] + tally if name in tallies else tally


def on_device(batch: Batch, device: torch.device) -> Batch:
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}


class WatchdogLimits(Section):
    """Section `watchdog` of a recipe."""

    min_code_perplexity: float = Field(default=8.0, ge=1, description="Warn below it")
    min_swap_gap: float = Field(
        default=0.02, ge=0, description="Warn when another story's plan costs less than this, in nats"
    )
    grace: float = Field(default=0.3, ge=0, le=1, description="Share of the run before warnings about the plan")
    on_alarm: Literal["warn", "stop"] = "warn"
    restart_dead_codes: bool = False


USES_PLAN = {  # what makes a generator use its plan, as far as trials showed (docs/experiments.md)
    "relaxation.noise_free": 0.25,
    "word_dropout.rate": 0.3,
    "model.code_logit_gain": 20.0,
    "loss.token_prediction": 0.3,
}
USES_CODES = ("loss.entropy", "loss.batch_entropy")


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Limits that a run is held to once `grace_steps` have passed; `settings` are the values of the recipe by key.

    Keys that are of no use to the bottleneck are left out of `settings`, and then of the advice.
    """

    limits: WatchdogLimits
    grace_steps: int
    settings: Mapping[str, float]
    restartable: bool = True  # codes made of bits are not

    def alarms(self, step: int, figures: Figures) -> list[str]:
        """What is wrong with these validation figures, each with advice that goes beyond the recipe."""
        if step < self.grace_steps:
            return []
        found = []
        perplexity, gap = figures["code_perplexity"], figures["swap_gap"]
        if perplexity < self.limits.min_code_perplexity:
            advice = [f"raise {key} (now {self.settings[key]:g})" for key in USES_CODES if key in self.settings]
            if self.restartable and not self.limits.restart_dead_codes:
                advice.append("set watchdog.restart_dead_codes=true")
            found.append(
                f"code perplexity {perplexity:.1f} is below {self.limits.min_code_perplexity:g} "
                f"({figures['codes_dead']:.0f} dead codes): {', or '.join(advice) or 'choose a lower model.num_codes'}"
            )
        if gap < self.limits.min_swap_gap:
            advice = [
                f"{key}={value:g} (now {self.settings[key]:g})"
                for key, value in USES_PLAN.items()
                if self.settings.get(key, value) < value
            ]
            found.append(
                f"another story's plan costs only {gap:.3f} nats per token: the generator ignores the plan; "
                + (f"set {', '.join(advice)}" if advice else "the recipe has all that helps, train longer")
            )
        return found


def code_usage(counts: Tensor) -> Figures:
    """Codes used, dead codes and perplexity of the code distribution, from how often each occurred [K]."""
    total = int(counts.sum())
    shares = counts.double() / max(1, total)
    used = int((counts > 0).sum())
    return {
        "codes_used": used,
        "codes_dead": len(counts) - used,
        "code_perplexity": float(torch.special.entr(shares).sum().exp()),
    }


@torch.no_grad()
def code_counts(codes: Tensor, vocabulary: int) -> Tensor:
    """How often each of K codes occurs [K]; the padding code is none."""
    return torch.bincount(codes.flatten(), minlength=vocabulary + 1)[:vocabulary]


@torch.no_grad()
def marker_hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Pairs joined by a marker whose label is the likeliest marker label, and all such pairs [2]; `unknown` is last."""
    unknown = logits.shape[-1] - 1
    labelled = labels < unknown
    right = logits[:, :unknown].argmax(-1) == labels
    return torch.stack([(right & labelled).sum(), labelled.sum()])


@torch.no_grad()
def swapped_losses(other: Tensor, own: Tensor, labels: Tensor) -> Tensor:
    """Loss under another story's latent, under its own, and tokens [3]; a story alone has nobody to swap with."""
    tokens = (labels != NO_LABEL).sum()
    swapped = torch.stack([other.double(), own.double(), tokens.double()])
    return swapped if len(labels) > 1 else torch.zeros_like(swapped)


def swap_gap(tallies: Tallies) -> Figures:
    """What another story's latent costs, in nats per token, from sums of `swapped_losses`."""
    if "swapped" not in tallies:
        return {}
    other, own, tokens = tallies["swapped"].tolist()
    return {"swap_gap": (other - own) / max(1.0, tokens)}


@torch.no_grad()
def written_bleu_1(
    model: DiscoDVT,
    feed: Feed,
    tokenizer: PreTrainedTokenizerBase,
    *,
    stories: int,
    stories_per_batch: int,
    device: torch.device,
    seed: int,
) -> float:
    """Mean BLEU-1 of stories written under the plans of the real ones (the paper's choice of the best model)."""
    model.eval()
    scores: list[float] = []
    torch.manual_seed(seed)
    for rows in in_order(feed.sort_keys, stories_per_batch, stories=stories):
        batch = on_device(feed.batch(rows, step=None), device)
        written = model.generate(
            batch["prompt_ids"],
            attention_mask=batch["prompt_mask"],
            plan=model.plan(batch["story_ids"], batch["story_mask"]),
            min_new_tokens=0,
            max_new_tokens=batch["story_ids"].shape[1],
        )
        texts = tokenizer.batch_decode(written, skip_special_tokens=True)
        references = tokenizer.batch_decode(batch["story_ids"], skip_special_tokens=True)
        scores += map(bleu_1, texts, references)
    model.train()
    return sum(scores) / max(1, len(scores))
