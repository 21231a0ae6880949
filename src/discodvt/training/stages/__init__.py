"""What a training stage is; every other file of this folder is one.

To add a stage, add a file with a subclass of `discodvt.training.assembly.Recipe`: its `stage` is a `Literal` with the
name, its fields are the sections of the recipe, its `build` makes the `Stage`. Nothing else has to be touched.

The loop (`discodvt.training.loop`) knows only `Stage` and `Objective`, so a stage may also live elsewhere: make a
`Stage` and hand it to `discodvt.training.run.run_stage`, as the relation classifier does. It must have

- `objective`, a module around the `model` that is trained. `forward(batch, step)` returns sums (`StageOutput`), never
  means: the loop adds `weight * sum / count` over `terms`, where counts are of the whole step. `step` is None in
  validation, where nothing may depend on chance. `figures` turns the tallies of all batches into what is shown.
- `order.step(number)`, the rows of a step as micro-batches [M, size]: a pure function of the number (`Order` is one).
- `train` and `valid`, the feeds that turn rows into batches and count what their losses are divided by. What a training
  batch draws by chance follows from the step and the row, so that a resumed run draws the same.
- `total` steps, and `describe(directory, progress)`, which adds tokenizer and card to each checkpoint.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor, nn
from transformers import PreTrainedModel

from discodvt.data.batches import Batch, Rows
from discodvt.stored_weights import Part, is_lora

Counts = dict[str, int]
Figures = dict[str, float]
Tallies = dict[str, Tensor]


class Term(NamedTuple):
    """One term of a loss: its weight and what it is a mean over."""

    weight: float
    per: str  # a key of the feed's counts: tokens, stories, pairs, codes


class StageOutput(NamedTuple):
    """Sums of one micro-batch: the terms of the loss, and tallies (any counts that add up over batches)."""

    sums: dict[str, Tensor]
    tallies: Mapping[str, Tensor] = {}


class Objective(nn.Module):
    """A model and the terms of its loss, in one module that can be wrapped whole for many processes (DDP, FSDP)."""

    terms: dict[str, Term]  # the first one chooses the best checkpoint
    not_trained: tuple[str, ...] = ()  # parts of the model that no term reaches: they are frozen, but for LoRA in them
    backbone_parts: tuple[str, ...] = ()  # parts that may have a learning rate of their own (optimizer.backbone_rate)
    part: Part | None = None  # what checkpoints say of their base, where they hold only what was trained

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    @property
    def _no_split_modules(self) -> list[str]:
        """Classes of the transformer layers that are there: what FSDP cuts one by one."""
        named = {name for module in self.model.modules() for name in getattr(module, "_no_split_modules", None) or ()}
        return sorted(named & {type(module).__name__ for module in self.model.modules()})

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        """The sums of a batch at a training step, or in validation (None)."""
        raise NotImplementedError

    def figures(self, tallies: Tallies) -> Figures:
        """What the tallies of many batches say, in training or validation."""
        return {}

    def schedule(self, step: int) -> Figures:
        """What changes from step to step besides the learning rate, to be shown."""
        return {}

    def alarms(self, step: int, figures: Figures) -> list[str]:
        """What is wrong with these validation figures, each with advice."""
        return []

    def after_step(self, gather: Callable[[Tensor], Tensor]) -> None:
        """Called after each update of the weights; `gather` joins the rows [N, ...] of all processes."""

    def after_validation(self, step: int, tallies: Tallies) -> list[str]:
        """Change the model after a validation, the same on every process; what was done, to be shown."""
        return []

    def exported(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights of a model to be kept, by name in the model; to resume, they are stored as they are."""
        return weights

    def freeze(self) -> list[str]:
        """Freeze the parts that are not trained and list their parameters."""
        frozen = []
        for part in self.not_trained:
            for name, parameter in self.model.get_submodule(part).named_parameters(prefix=part):
                if not is_lora(name):
                    parameter.requires_grad_(False)
                    frozen.append(name)
        return frozen


class Steps(Protocol):
    """Which rows make which step."""

    def step(self, number: int) -> Rows: ...


class Feed(Protocol):
    """Batches of a split. `step` is the training step, or None for validation."""

    def __len__(self) -> int: ...

    @property
    def sort_keys(self) -> Rows: ...

    def counts(self, rows: Rows) -> Counts: ...

    def batch(self, rows: Rows, *, step: int | None) -> Batch: ...


@dataclass
class Stage:
    """All that one run needs; see above."""

    objective: Objective
    order: Steps
    train: Feed
    valid: Feed
    total: int
    describe: Callable[[Path, dict[str, Any]], None]
    every_steps: int | None = None  # between validations and between saves, instead of the settings
    learning_rate: Callable[[int], float] | None = None  # of a step, instead of the schedule of the settings
    measure: Callable[[], Figures] | None = None  # further figures of a validation
    score: Callable[[int, Figures], float | None] | None = None  # of a checkpoint, less is better; None: not to keep
    stop_on_alarm: bool = False
    remedy: str = "try again with a lower one"  # where a gradient is not finite at some learning rate
    around: PreTrainedModel | None = None  # published with the trained model inside, in `inside`
    inside: str = ""
    notes: list[str] = field(default_factory=list)  # to be shown before the first step
    facts: dict[str, Any] = field(default_factory=dict)  # for the manifest


def step_seed(seed: int, step: int, process: int) -> int:
    """A seed of its own for each step and process, so that no random state needs to be saved."""
    return int(np.random.SeedSequence([seed, step, process]).generate_state(1, np.uint64)[0] >> np.uint64(1))
