"""What a grid does: steps, each a command of `discodvt` with one output, and the rows of the tables they lead to."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from discodvt.artefacts import MANIFEST
from discodvt.experiments.grid import Grid

if TYPE_CHECKING:  # a step on a node imports this module; it would take seconds
    from discodvt.training.assembly import Recipe

Kind = Literal[
    "given", "prepare", "annotate", "prompts", "classifier", "train", "make", "generate", "evaluate", "compare",
    "discourse", "study", "measure",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Step:
    """One command and what it makes."""

    kind: Kind
    name: str  # for people: `tiny: warm-start, seed 1`
    output: Path  # a stage directory, or a file
    command: tuple[str, ...]  # words of `discodvt`
    after: tuple["Step", ...] = ()
    recipe: "Recipe | None" = None  # of a training

    @property
    def done(self) -> bool:
        if self.kind in ("given", "prompts"):
            return self.output.exists()
        beside = self.output.with_name(f"{self.output.name}.{MANIFEST}")
        return beside.exists() if self.kind == "generate" else (self.output / MANIFEST).exists()


@dataclass(frozen=True, eq=False)
class Cell:
    """One training of one system for one corpus."""

    system: str
    corpus: str
    seed: int
    trainings: tuple[Step, ...]
    stories: Step
    measured: Step | None = None  # of the first seed only, as is the study
    study: Step | None = None


@dataclass(frozen=True, eq=False)
class Row:
    """A system on a corpus: its cells, scored together."""

    system: str
    corpus: str
    cells: tuple[Cell, ...]
    scores: Step
    compared: Step | None
    discourse: Step | None

    @property
    def steps(self) -> list[Step]:
        """All that it takes."""
        found: dict[Path, Step] = {}

        def add(step: Step) -> None:
            for before in step.after:
                add(before)
            found.setdefault(step.output, step)

        last = [
            self.scores,
            self.compared,
            self.discourse,
            *(s for cell in self.cells for s in (cell.measured, cell.study)),
        ]
        for step in last:
            if step is not None:
                add(step)
        return list(found.values())


@dataclass(frozen=True)
class Plan:
    """All steps in order, and the rows of the tables they lead to."""

    grid: Grid
    out: Path
    steps: tuple[Step, ...]
    rows: tuple[Row, ...]


def lineage(step: Step) -> list[Step]:
    """The trainings whose weights went into a step, the first one first."""
    if step.recipe is None:
        earlier = list(step.after) if step.kind == "make" else []
    else:
        model = step.recipe.model
        fresh = getattr(model, "random_init", False)  # then only shape and subwords are the checkpoint's
        earlier = [before for before in step.after if str(before.output) == model.init and not fresh]
    found = dict.fromkeys(training for before in earlier for training in lineage(before))
    return [*found, *([step] if step.kind == "train" else [])]
