"""Recipes on disk: read from TOML, changed by `--set section.key=value`, all errors told at once.

A recipe is a union over the stages, told apart by its `stage`; every file of `discodvt.training.stages` adds its own,
and so does every one of `discodvt.baselines.stages`.
"""

import json
import pkgutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Union, get_args

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from discodvt.config import find_recipe, read_toml
from discodvt.errors import BadRequest
from discodvt.training import stages
from discodvt.training.assembly import Recipe

RENAMED = {  # old key of a recipe -> its name now
    "optimiser": "optimizer",
    "loss.usage": "loss.batch_entropy",
    "loss.doubt": "loss.position_entropy",
    "loss.words": "loss.token_prediction",
    "loss.bag_of_words": "loss.token_prediction",
    "relaxation.start": "relaxation.temperature",
    "relaxation.floor": "relaxation.min_temperature",
    "relaxation.floor_at": "relaxation.min_temperature_at",
    "relaxation.rate": "relaxation.decay_rate",
    "relaxation.word_dropout": "word_dropout.rate",
    "relaxation.word_dropout_until": "word_dropout.until",
    "denoising.masked": "denoising.mask_ratio",
    "model.codes": "model.num_codes",
    "tokenizer.vocabulary": "tokenizer.vocab_size",
    "card.licence": "card.license",
}


STAGE_FOLDERS = (stages.__name__, "discodvt.baselines.stages")  # by name: nothing here knows what a baseline is


@cache
def stage_recipes() -> dict[str, type[Recipe]]:
    """The recipe of every stage, by the stage's name."""
    for folder in STAGE_FOLDERS:
        for module in pkgutil.iter_modules(import_module(folder).__path__, f"{folder}."):
            import_module(module.name)
    return {name: kind for kind in _subclasses(Recipe) for name in get_args(kind.model_fields["stage"].annotation)}


def _subclasses(kind: type[Recipe]) -> Iterator[type[Recipe]]:
    for below in kind.__subclasses__():
        yield below
        yield from _subclasses(below)


def read_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a TOML recipe (a path, or the name of one that ships), apply `section.key=value` overrides, check it all."""
    path = find_recipe(name)
    missing = "no such recipe; `discodvt recipes` lists those that ship"
    values = read_toml(path, give="a recipe, a TOML file", missing=missing)
    for override in overrides:
        _set(values, override)
    union: Any = Union[tuple(stage_recipes().values())]  # noqa: UP007 (of a list known only now)
    schema: TypeAdapter[Recipe] = TypeAdapter(Annotated[union, Field(discriminator="stage")])
    wrong: list[str] = []
    while True:
        try:
            recipe = schema.validate_python(values)
        except ValidationError as error:
            wrong += [line for line in _explain(error, values) if line not in wrong]
            if not _forget(values, error):
                break
        else:
            break
    if wrong:
        raise BadRequest(f"{path}: " + "; ".join(wrong))
    return recipe


def keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All keys of a recipe or section, dotted."""
    for name, field in section.model_fields.items():
        yield prefix + name
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from keys(kind, f"{prefix}{name}.")


def _set(values: dict[str, Any], override: str) -> None:
    """Apply one `section.key=value`; the value is read as TOML, or as text where it is none. Empty: without the key."""
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise BadRequest(f"`set_` {override}: write it as section.key=value", "set_")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    place = values
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise BadRequest(f"`set_` {override}: {name} is a value, not a section", "set_")
    if text.strip():
        place[names[-1]] = value
    else:
        place.pop(names[-1], None)


def toml_value(value: bool | int | float | str) -> str:
    """A value as TOML has it, which is as JSON has it."""
    return json.dumps(value, ensure_ascii=False)


def as_toml(recipe: Recipe, comment: str) -> str:
    """A recipe as a TOML file of all its keys, under a comment; keys without a value are left out."""
    unused = {name for name in ("lora",) if name in type(recipe).model_fields and name not in recipe.model_fields_set}
    return "\n".join([f"# {comment}", *_toml_lines(recipe.model_dump(mode="json", exclude=unused))]) + "\n"


def _toml_lines(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    sections = {name: value for name, value in values.items() if isinstance(value, dict)}
    yield from (
        f"{name} = {toml_value(value)}" for name, value in values.items() if name not in sections and value is not None
    )
    for name, section in sections.items():
        lines = list(_toml_lines(section, f"{prefix}{name}."))
        yield from (["", f"[{prefix}{name}]", *lines] if lines else [])


def _place(problem: ErrorDetails) -> tuple[int | str, ...]:
    """The keys that lead to what is wrong; the first of an error within a union is the stage."""
    return problem["loc"][1:]


def _forget(values: dict[str, Any], error: ValidationError) -> bool:
    """Take out what was wrong, so that sections can still be held against each other; whether there was anything."""
    found = False
    for problem in error.errors():
        place: Any = values
        for name in _place(problem)[:-1]:
            place = place.get(name) if isinstance(place, dict) else None
        if _place(problem) and isinstance(place, dict) and _place(problem)[-1] in place:
            del place[_place(problem)[-1]]
            found = True
    return found


def _explain(error: ValidationError, values: dict[str, Any]) -> list[str]:
    """One short sentence for each thing that is wrong."""
    lines = []
    known = {key for kind in stage_recipes().values() for key in keys(kind)}
    for problem in error.errors():
        where = ".".join(map(str, _place(problem)))
        if problem["type"].startswith("union_tag"):
            found = f"{values['stage']!r} is no stage" if "stage" in values else "missing"
            lines.append(f"stage: {found}; choose one of {', '.join(sorted(stage_recipes()))}")
        elif problem["type"] == "extra_forbidden":
            within = [f"{where}.{key}" for key in problem["input"]] if isinstance(problem["input"], dict) else []
            old = [key for key in (where, *within) if key in RENAMED]
            foreign = f"not for {values['stage']}; leave it out" if where in known else "unknown key"
            lines += [f"{key}: is now {RENAMED[key]}" for key in old] or [f"{where}: {foreign}"]
        elif problem["type"] == "missing":
            lines.append(f"{where}: missing")
        else:
            said = problem["msg"].removeprefix("Value error, ")
            lines += [f"{where}: {line}" if where else line for line in said.splitlines()]
    return lines
