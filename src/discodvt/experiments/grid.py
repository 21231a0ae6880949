"""What a grid is: systems x seeds x corpora, as GRID.toml says it.

    seeds = [1, 2, 3]
    main = "DiscoDVT"                                   # compared with every other system

    [corpora.plots]
    prepare = ["wikiplots", "raw/plots"]                # words of `discodvt prepare`; or `corpus`, a directory
    prompts = 1000                                      # the first of the test split, the same for every system

    [stages.backbone]
    recipe = "paper/pretrain"
    seed = 42                                           # one for all seeds of the grid

    [systems.DiscoDVT]
    stages = ["backbone", "warm-start", "reconstruct", { stage = "prior", set = { "run.steps" = 100 } }]

A system is a chain of stages: each starts from the checkpoint of the one before (`model.init`), or of the stage that
its `after` names; the last is what writes. In a value of `set` and in words of a command `{NAME}` is the directory of
a stage, `{corpus}` that of the corpus. Chains with the same beginning share it.
"""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from discodvt.config import Location, Section, find_recipe, read_toml
from discodvt.errors import BadRequest

Value = bool | int | float | str


class CorpusSettings(Section):
    """Where a corpus comes from, and how much of its test split is written to."""

    prepare: list[str] | None = Field(default=None, description="Words of `discodvt prepare`, without the directory")
    corpus: Location | None = Field(
        default=None, description="Instead of `prepare`: a corpus directory, annotated or not"
    )
    annotate: bool = Field(default=True, description="Annotate it; what only language models read needs none")
    evaluate: bool = Field(default=True, description="Write and score; not a corpus that is only trained on")
    prompts: int = Field(default=1000, ge=2, description="Of the test split, from its first")

    @model_validator(mode="after")
    def _from_somewhere(self) -> Self:
        if (self.prepare is None) == (self.corpus is None):
            raise ValueError("give one of prepare and corpus")
        return self


class StageSettings(Section):
    """One run of a recipe, or of another command that makes a directory."""

    recipe: str | None = Field(default=None, description="A recipe: a TOML file, or the name of one that ships")
    command: list[str] | None = Field(default=None, description="Instead: words of `discodvt`, with {out}")
    set: dict[str, Value] = Field(default_factory=dict, description="Keys of the recipe, changed")
    after: str | None = Field(default=None, description="The stage whose checkpoint it starts from")
    corpus: str | None = Field(default=None, description="Trained on this corpus, not on the one of the cell")
    seed: int | None = Field(default=None, ge=0, description="Instead of the seed of the cell: one run for all")

    @model_validator(mode="after")
    def _does_something(self) -> Self:
        if (self.recipe is None) == (self.command is None):
            raise ValueError("give one of recipe and command")
        return self


class ChainLink(Section):
    """A stage in the chain of a system, with further changes."""

    stage: str
    set: dict[str, Value] = Field(default_factory=dict)


class SystemSettings(Section):
    """A row of the tables."""

    stages: list[str | ChainLink] = Field(min_length=1)
    seeds: list[int] | None = Field(default=None, min_length=1, description="Instead of those of the grid")
    corpora: list[str] | None = Field(default=None, min_length=1, description="Instead of all that are evaluated")
    reports: list[str] = Field(default=["main"], min_length=1, description="Reports it is in, each a page of its own")
    generate: list[str] = Field(default_factory=list, description="Further words of `discodvt generate`")

    @property
    def links(self) -> list[ChainLink]:
        return [ChainLink(stage=link) if isinstance(link, str) else link for link in self.stages]


class GridEvaluation(Section):
    """How stories are scored."""

    resamples: int = Field(default=1000, ge=2)
    discourse: bool = Field(default=True, description="Fit a relation classifier and score with it")
    classifier: list[str] = Field(default_factory=list, description="Further words of `discodvt discourse fit`")
    codes: bool = Field(default=True, description="Study and measure the codes of a system's first seed")
    measure: list[str] = Field(default_factory=list, description="Further words of `discodvt codes measure`")
    study: list[str] = Field(default_factory=list, description="Further words of `discodvt codes study`")


class Grid(Section):
    """A whole grid."""

    out: Location | None = Field(default=None, description="Output directory; `--out` comes first")
    title: str | None = None
    seeds: list[int] = Field(min_length=1)
    main: str | None = Field(default=None, description="The system that the others are compared with")
    generate: list[str] = Field(default_factory=list, description="Further words of `discodvt generate`, for all")
    corpora: dict[str, CorpusSettings] = Field(min_length=1)
    stages: dict[str, StageSettings]
    systems: dict[str, SystemSettings] = Field(min_length=1)
    evaluation: GridEvaluation = GridEvaluation()

    @property
    def evaluated(self) -> list[str]:
        return [name for name, corpus in self.corpora.items() if corpus.evaluate]

    def with_systems(self, kept: dict[str, SystemSettings]) -> "Grid":
        """Without all other systems."""
        return self.model_copy(update={"systems": kept, "main": self.main if self.main in kept else None})

    def with_seeds(self, seeds: Sequence[int]) -> "Grid":
        """With these seeds of every system; one that has none of them is left out."""
        kept = {
            name: system.model_copy(update={"seeds": found})
            for name, system in self.systems.items()
            if (found := [seed for seed in system.seeds or self.seeds if seed in seeds])
        }
        if not kept:
            raise BadRequest(f"`seed` {', '.join(map(str, seeds))}: no system has it; there are {self.seeds}", "seed")
        return self.with_systems(kept)

    def problems(self) -> list[str]:
        """Names that name nothing, and seeds given twice."""
        wrong: list[str] = []
        if not self.evaluated:
            wrong.append("corpora: none is evaluated; leave evaluate = false out of one")
        if self.main is not None and self.main not in self.systems:
            wrong.append(f"main: {_unknown(self.main, 'system', self.systems)}")
        for name, stage in self.stages.items():
            if stage.after is not None and stage.after not in self.stages:
                wrong.append(f"stages.{name}.after: {_unknown(stage.after, 'stage', self.stages)}")
            if stage.corpus is not None and stage.corpus not in self.corpora:
                wrong.append(f"stages.{name}.corpus: {_unknown(stage.corpus, 'corpus', self.corpora)}")
        for name, system in self.systems.items():
            for link in system.links:
                if link.stage not in self.stages:
                    wrong.append(f"systems.{name}: {_unknown(link.stage, 'stage', self.stages)}")
            wrong += [
                f"systems.{name}.corpora: {_unknown(corpus, 'corpus', self.evaluated)}"
                for corpus in system.corpora or []
                if corpus not in self.evaluated
            ]
            if any(not re.fullmatch(r"[\w.-]+", report) for report in system.reports):
                wrong.append(f"systems.{name}.reports: names of letters, digits, '.', '-' and '_'")
        for where, seeds in (
            ("seeds", self.seeds),
            *((f"systems.{n}.seeds", s.seeds) for n, s in self.systems.items()),
        ):
            if seeds is not None and len(set(seeds)) < len(seeds):
                wrong.append(f"{where}: a seed is there twice")
        return wrong


def _unknown(name: str, what: str, known: Sequence[str] | dict[str, Any]) -> str:
    near = get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"
    return f"no {what} {name!r}; {hint}"


def read_grid(name: str | Path, *, only: Sequence[str] = (), seeds: Sequence[int] = ()) -> Grid:
    """Read and check a grid (a path, or the name of one that ships); `only` and `seeds` keep a part of it."""
    path = find_recipe(name)
    values = read_toml(path, give="a grid, a TOML file", missing="no such grid; give a TOML file")
    try:
        grid = Grid.model_validate(values)
    except ValidationError as error:
        raise BadRequest(f"{path}: " + "; ".join(dict.fromkeys(map(_explain, error.errors())))) from None
    wrong = grid.problems()
    if wrong:
        raise BadRequest(f"{path}: " + "; ".join(wrong))
    for system in only:
        if system not in grid.systems:
            raise BadRequest(f"{path}: `only` {system}: {_unknown(system, 'system', grid.systems)}", "only")
    if only:
        kept = {name: system for name, system in grid.systems.items() if name in only}
        grid = grid.with_systems(kept)
    return grid.with_seeds(seeds) if seeds else grid


def _explain(problem: Any) -> str:
    places = [str(place) for place in problem["loc"] if place not in ("str", "ChainLink")]
    where = ".".join(places)
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown key" if len(places) > 1 or "recipe" not in where else f"{where}: a recipe, not a grid"
    if problem["type"] == "missing":
        return f"{where}: missing"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message
