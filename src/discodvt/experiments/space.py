"""A search space: keys of a recipe with the values to try, as a TOML file shaped like the recipe.

    [optimizer]
    learning_rate = [8e-5, 1e-4, 2e-4]             # one of these
    weight_decay = { low = 1e-4, high = 0.1, log = true }  # a range; of whole numbers where both ends are whole

Without a file it is the space of the paper's appendix, as far as the recipe has its keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discodvt.checkpoints import Checkpoint
from discodvt.config import read_toml
from discodvt.errors import BadRequest
from discodvt.training.assembly import Recipe
from discodvt.training.recipes import keys, read_recipe, toml_value

if TYPE_CHECKING:
    from optuna import Trial

Value: TypeAlias = bool | int | float | str
FIXED = ("stage", "out", "data.corpus", "data.max_valid_stories", "validation")  # else values could not be compared
PAPER: dict[str, list[Value]] = {
    "optimizer.learning_rate": [8e-5, 1e-4, 2e-4],
    "run.epochs": [1, 2, 3, 4, 5],
    "batch.stories_per_step": [4, 8, 16],
    "data.prompt_tokens": [16, 32, 64],
    "model.num_codes": [32, 64, 128, 256, 512],
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some values."""

    values: tuple[Value, ...]

    @property
    def examples(self) -> tuple[Value, ...]:
        """Values that a recipe must take, for all of this to be possible."""
        return self.values

    def suggest(self, trial: "Trial", key: str) -> Value:
        value: Any = trial.suggest_categorical(key, self.values)
        return self.values[self.values.index(value)]

    def draw(self, random: np.random.Generator) -> Value:
        return self.values[int(random.integers(len(self.values)))]

    def as_json(self) -> Any:
        return list(self.values)


@dataclass(frozen=True, slots=True)
class Range:
    """A number between two ends, both included; `log`: equal ratios are equally likely."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def examples(self) -> tuple[Value, ...]:
        return self.low, self.high

    def suggest(self, trial: "Trial", key: str) -> Value:
        if self.whole:
            return trial.suggest_int(key, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(key, self.low, self.high, log=self.log)

    def draw(self, random: np.random.Generator) -> Value:
        ends = np.log([self.low, self.high]) if self.log else np.array([self.low, self.high])
        drawn = float(random.uniform(*ends))
        value = min(max(float(np.exp(drawn)) if self.log else drawn, self.low), self.high)
        return round(value) if self.whole else value

    def as_json(self) -> Any:
        return {"low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True, slots=True)
class Space:
    """Dotted keys of a recipe, and what each may be; `notes` say what was left out of the default one."""

    domains: Mapping[str, Choice | Range]
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> float:
        """How many combinations there are."""
        sizes = (
            len(domain.values)
            if isinstance(domain, Choice)
            else (domain.high - domain.low + 1 if domain.whole else float("inf"))
            for domain in self.domains.values()
        )
        return prod(sizes)

    def suggest(self, trial: "Trial") -> dict[str, Value]:
        """The values of a trial: those it has, or those its sampler gives it."""
        return {key: domain.suggest(trial, key) for key, domain in self.domains.items()}

    def draw(self, random: np.random.Generator) -> dict[str, Value]:
        return {key: domain.draw(random) for key, domain in self.domains.items()}

    def as_json(self) -> dict[str, Any]:
        return {key: domain.as_json() for key, domain in self.domains.items()}


def overrides_of(values: Mapping[str, Value]) -> list[str]:
    """Values as `--set` takes them."""
    return [f"{key}={toml_value(value)}" for key, value in values.items()]


def read_space(path: Path, recipe: str | Path, overrides: Sequence[str] = ()) -> Space:
    """The space of a file, every key and value tried on the recipe."""
    domains = dict(_domains(path, read_toml(path, give="a search space, a TOML file")))
    if not domains:
        raise BadRequest(f"{path}: no keys in it; give lists of values, such as learning_rate = [1e-4, 2e-4]")
    asked = read_recipe(recipe, overrides)
    known = set(keys(type(asked)))
    for key, domain in domains.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "leave it out"
            raise BadRequest(f"{path}: {key} is no key of a {asked.stage} recipe; {hint}")
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED):
            raise BadRequest(f"{path}: {key} is the same for all trials, which are compared by it; leave it out")
        for value in domain.examples:
            try:
                read_recipe(recipe, [*overrides, *_length_unset(key), *overrides_of({key: value})])
            except BadRequest as error:
                raise BadRequest(f"{path}: {key} = {toml_value(value)} does not fit the recipe: {error}") from None
    return Space(domains)


def paper_space(recipe: Recipe) -> Space:
    """The space of the paper's appendix (A.3), without what this recipe has no use for."""
    known = set(keys(type(recipe)))
    left_out = {key: "no key of this stage" for key in PAPER if key not in known}
    if recipe.model.init is not None and Checkpoint.open(recipe.model.init).kind == "discodvt":
        left_out["model.num_codes"] = f"{recipe.model.init} has its codes already"
    if not recipe.reads_prompts:
        left_out["data.prompt_tokens"] = "this stage reads no prompts"
    micro_batch = recipe.batch.stories_per_micro_batch
    chosen = {key: values for key, values in PAPER.items() if key not in left_out}
    steps = "batch.stories_per_step"
    chosen[steps] = [size for size in chosen[steps] if int(size) % micro_batch == 0] or [recipe.batch.stories_per_step]
    notes = tuple(f"{key} is left out: {why}" for key, why in left_out.items())
    return Space({key: Choice(tuple(values)) for key, values in chosen.items()}, notes)


def with_values(recipe: str | Path, overrides: Sequence[str], values: Mapping[str, Value]) -> Recipe:
    """The recipe of a trial."""
    unset = [override for key in values for override in _length_unset(key)]
    return read_recipe(recipe, [*overrides, *unset, *overrides_of(values)])


def _length_unset(key: str) -> list[str]:
    """A recipe has steps or epochs: what is searched replaces the other."""
    other = {"run.steps": "run.epochs", "run.epochs": "run.steps"}.get(key)
    return [] if other is None else [f"{other}="]


def _domains(path: Path, content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Choice | Range]]:
    for name, value in content.items():
        key = prefix + name
        if isinstance(value, dict) and "low" in value:
            yield key, _range(path, key, value)
        elif isinstance(value, dict):
            yield from _domains(path, value, f"{key}.")
        elif isinstance(value, list) and value and all(isinstance(each, bool | int | float | str) for each in value):
            yield key, Choice(tuple(dict.fromkeys(value)))
        else:
            raise BadRequest(f"{path}: {key}: expected a list of values, or a table with low and high")


def _range(path: Path, key: str, value: dict[str, Any]) -> Range:
    odd = set(value) - {"low", "high", "log"}
    low, log = value["low"], value.get("log", False)
    high: Any = value.get("high")
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in (low, high))
    if odd or not numbers or not isinstance(log, bool) or not low < high or (log and low <= 0):
        raise BadRequest(f"{path}: {key}: expected low < high and log = true or false (then low above 0)")
    return Range(low, high, log)
