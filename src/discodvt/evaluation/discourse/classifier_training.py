"""What the training loop needs to train the relation classifier: its objective, batches of pairs, and steps.

The classifier is trained on one or two sets of pairs, one after the other, and validated on pairs of held-out stories.
Markers are far from equally frequent, and macro-accuracy weighs them alike. So rare markers are drawn more often (in
proportion to the square root of their number), and the loss adds the log of the drawn shares to the logits (balanced
softmax, Ren et al. 2020; logit adjustment, Menon et al. 2021): the bare logits then answer as if all were equally
frequent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch.nn import functional as F

from discodvt.data.batches import Batch, Order, Rows
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import EncodedPairs, PairReader, RelationClassifier
from discodvt.training.loop import learning_rate
from discodvt.training.stages import Counts, Figures, Objective, StageOutput, Tallies, Term

WARMUP = 0.05  # of a phase


class RelationObjective(Objective):
    """Cross entropy of the marker, as if markers were drawn with equal shares."""

    model: RelationClassifier

    def __init__(self, model: RelationClassifier) -> None:
        super().__init__(model)
        self.terms = {"cross_entropy": Term(1.0, "pairs")}

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        """The sum over pairs, and how many of each marker there are and were found [2, markers]."""
        logits = self.model(batch["input_ids"], batch["attention_mask"], batch["sides"])
        labels = batch["labels"]
        loss = F.cross_entropy(logits + batch["log_shares"], labels, reduction="sum")
        right = labels[logits.argmax(dim=-1) == labels]
        found = torch.stack([torch.bincount(each, minlength=len(MARKERS)) for each in (labels, right)])
        return StageOutput({"cross_entropy": loss}, {"markers": found})

    def figures(self, tallies: Tallies) -> Figures:
        """Macro-accuracy: mean over the markers there are of the share of their pairs that was found."""
        total, right = tallies["markers"].double()
        there = total > 0
        return {"macro_accuracy": float((right[there] / total[there]).mean())}


@dataclass(frozen=True)
class PairFeed:
    """Batches of one or more sets of pairs, numbered through; a batch is from one set."""

    reader: PairReader
    sets: Sequence[EncodedPairs]
    log_shares: Sequence[torch.Tensor]  # of each set [markers]: what the loss adds to the logits

    def __len__(self) -> int:
        return sum(map(len, self.sets))

    @property
    def sort_keys(self) -> Rows:
        return np.concatenate([pairs.lengths for pairs in self.sets])

    def counts(self, rows: Rows) -> Counts:
        return {"pairs": len(rows)}

    def batch(self, rows: Rows, *, step: int | None) -> Batch:
        """Batch of the classifier, the markers' numbers [B], and the log shares of the set [markers]."""
        number = 0
        while rows[0] >= len(self.sets[number]):
            rows = rows - len(self.sets[number])
            number += 1
        pairs = self.sets[number]
        labels = {"labels": torch.from_numpy(pairs.labels[rows]), "log_shares": self.log_shares[number]}
        return self.reader.batch(pairs, rows) | labels


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
        """The pairs of a step, as one micro-batch [1, pairs]."""
        rows: Rows = self.drawn[self.order.step(step)]
        return rows

    @cached_property
    def log_shares(self) -> torch.Tensor:
        """Log of each marker's share of the draws, [markers]; one that is never drawn counts as drawn once."""
        counts = np.bincount(self.pairs.labels[self.drawn], minlength=len(MARKERS)).clip(min=1)
        return torch.from_numpy(np.log(counts / counts.sum())).float()


@dataclass(frozen=True)
class Phases:
    """The steps of all phases, one after the other."""

    each: Sequence[Phase]

    @property
    def total(self) -> int:
        return sum(phase.steps for phase in self.each)

    def step(self, number: int) -> Rows:
        """The one micro-batch [1, pairs] of a step; pairs are numbered through all sets."""
        place, within = self._place(number)
        return self.each[place].rows(within) + sum(len(phase.pairs) for phase in self.each[:place])

    def learning_rate(self, step: int, *, peak: float) -> float:
        """Up over the first steps of a phase, then down to 0 at its end."""
        place, within = self._place(step)
        steps = self.each[place].steps
        return learning_rate(within, steps, peak=peak, linear=True, warmup=round(WARMUP * steps))

    def in_last(self, step: int) -> bool:
        """Whether so many steps reach into the last phase, the only one that can have the best checkpoint."""
        return step > self.total - self.each[-1].steps

    def _place(self, step: int) -> tuple[int, int]:
        """Which phase a step is in, and which of its steps it is."""
        place = 0
        while step >= self.each[place].steps:
            step -= self.each[place].steps
            place += 1
        return place, step
