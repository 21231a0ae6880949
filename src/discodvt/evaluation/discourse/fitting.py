"""Training the relation classifier: one or two sets of pairs after one another, validated on pairs of held-out stories.

Markers are far from equally frequent, and macro-accuracy asks for all alike. So rare markers are drawn more often (in
proportion to the square root of their number), and the loss adds the log of the drawn shares to the logits (balanced
softmax, Ren et al. 2020; logit adjustment, Menon et al. 2021): the bare logits then answer as if all were alike.
Every step follows from its number, so a stopped run goes on as if nothing had happened.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn import functional as F

from discodvt.data.batches import Order, Rows
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest, WorkFailed
from discodvt.evaluation.discourse.classifier import (
    EncodedPairs,
    PairReader,
    RelationClassifier,
    macro_accuracy,
    predict,
)
from discodvt.training.loop import Event, learning_rate, step_seed
from discodvt.training.outputs import Checkpoints, Journal
from discodvt.training.stages import Objective

VALIDATIONS = 10
WARMUP = 0.05  # of a phase
WEIGHT_DECAY = 0.01
MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class Phase:
    """One set of pairs and how long to train on it: `epochs` times as many draws as there are pairs."""

    pairs: EncodedPairs
    epochs: float
    pairs_per_step: int
    seed: int

    @cached_property
    def drawn(self) -> Rows:
        """The pairs of the whole phase: of each marker in turn, through a shuffle of its pairs, round and round."""
        random = np.random.default_rng(self.seed)
        counts = np.bincount(self.pairs.labels, minlength=len(MARKERS))
        wanted = np.sqrt(counts) / np.sqrt(counts).sum() * self.epochs * len(self.pairs)
        rows = [random.permutation(np.flatnonzero(self.pairs.labels == marker)) for marker in range(len(MARKERS))]
        return np.concatenate([np.resize(own, round(want)) for own, want in zip(rows, wanted, strict=True)])

    @cached_property
    def order(self) -> Order:
        if len(self.drawn) < self.pairs_per_step:
            raise BadRequest(
                f"{len(self.drawn)} pairs do not fill one step of {self.pairs_per_step}; "
                "use more stories or set `pairs_per_step` lower",
                parameter="pairs_per_step",
            )
        return Order(self.pairs.lengths[self.drawn], self.pairs_per_step, self.pairs_per_step, self.seed)

    @property
    def steps(self) -> int:
        return self.order.steps_per_epoch

    def rows(self, step: int) -> Rows:
        rows: Rows = self.drawn[self.order.step(step)[0]]
        return rows

    @cached_property
    def log_shares(self) -> torch.Tensor:
        """Log of each marker's share of the draws, [markers]; one that is never drawn counts as drawn once."""
        counts = np.bincount(self.pairs.labels[self.drawn], minlength=len(MARKERS)).clip(min=1)
        return torch.from_numpy(np.log(counts / counts.sum())).float()


@dataclass(frozen=True)
class Fitting:
    """A classifier under training."""

    model: RelationClassifier
    reader: PairReader
    phases: Sequence[Phase]
    valid: EncodedPairs
    checkpoints: Checkpoints
    describe: Callable[[Path, dict[str, Any]], None]
    journal: Journal
    learning_rate: float
    seed: int
    progress: dict[str, Any]  # step, best_step, best_value, figures

    @cached_property
    def total(self) -> int:
        return sum(phase.steps for phase in self.phases)

    def run(self) -> Iterator[Event]:
        """Train from where `progress` stands to the end; the best in the last phase is kept."""
        accelerator = Accelerator()
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.learning_rate, weight_decay=WEIGHT_DECAY, fused=True
        )
        module, prepared = accelerator.prepare(Objective(self.model), optimizer)
        progress, every = self.progress, max(1, self.total // VALIDATIONS)
        losses: list[float] = []  # since the last validation, which is when a run can be resumed
        if progress["step"] > 0:
            self.checkpoints.restore(module, prepared.optimizer)
        while progress["step"] < self.total:
            losses.append(self._step(progress["step"], prepared.optimizer, accelerator.device))
            progress["step"] += 1
            yield Event("step", progress["step"], self.total, {"loss": losses[-1]})
            if progress["step"] % every == 0 or progress["step"] == self.total:
                kinds = ["last"]
                yield self._validate(float(np.mean(losses)))
                losses = []
                final = progress["step"] > self.total - self.phases[-1].steps
                value = progress["figures"]["macro_accuracy"]
                if final and (progress["best_value"] is None or value > progress["best_value"]):
                    progress |= {"best_step": progress["step"], "best_value": value}
                    kinds = ["best", "last"]
                for kind in kinds:
                    kept = prepared.optimizer if kind == "last" else None
                    self.checkpoints.save(
                        kind,
                        progress,
                        accelerator=accelerator,
                        module=module,
                        optimizer=kept,
                        describe=self.describe,
                    )

    def _step(self, number: int, optimizer: torch.optim.Optimizer, device: torch.device) -> float:
        """One update; returns its loss."""
        step = number
        for phase in self.phases:
            if step < phase.steps:
                break
            step -= phase.steps
        rate = learning_rate(
            step, phase.steps, peak=self.learning_rate, linear=True, warmup=round(WARMUP * phase.steps)
        )
        for group in optimizer.param_groups:
            group["lr"] = rate
        torch.manual_seed(step_seed(self.seed, number, 0))
        self.model.train()
        rows = phase.rows(step)
        batch = {name: value.to(device) for name, value in self.reader.batch(phase.pairs, rows).items()}
        labels = torch.from_numpy(phase.pairs.labels[rows]).to(device)
        loss = F.cross_entropy(self.model(**batch) + phase.log_shares.to(device), labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT_NORM)
        if not torch.isfinite(norm):
            raise WorkFailed(
                f"step {number + 1}: the gradient is not finite; try again with a lower `learning_rate`",
                parameter="learning_rate",
            )
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    def _validate(self, loss: float) -> Event:
        """The training loss since the last time, and the accuracy on held-out pairs."""
        progress = self.progress
        accuracy = macro_accuracy(predict(self.model, self.reader, self.valid), self.valid.labels)
        progress["figures"] = {"loss": loss, "macro_accuracy": accuracy}
        self.journal.write(progress["step"], "valid", progress["figures"])
        return Event("valid", progress["step"], self.total, progress["figures"])
