"""Recipes on disk: read from TOML, changed by `--set section.key=value`, all errors told at once."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from discodvt.config import RENAMED, Recipe
from discodvt.errors import BadRequest


def read_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a TOML recipe, apply `section.key=value` overrides, and check all of it."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such recipe; recipes/ has some to start from") from None
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a recipe, a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"{path}: not a TOML file: {error}") from None
    for override in overrides:
        _set(values, override)
    wrong: list[str] = []
    while True:
        try:
            recipe = Recipe.model_validate(values)
        except ValidationError as error:
            wrong += [line for line in _explain(error) if line not in wrong]
            if not _forget(values, error):
                break
        else:
            break
    if wrong:
        raise BadRequest(f"{path}: " + "; ".join(wrong))
    return recipe


def _set(values: dict[str, Any], override: str) -> None:
    """Apply one `section.key=value`; the value is read as TOML, or as text where it is none."""
    key, equals, text = override.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise BadRequest(f"--set {override}: write it as section.key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    place = values
    for name in names[:-1]:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise BadRequest(f"--set {override}: {name} is a value, not a section")
    place[names[-1]] = value


def _forget(values: dict[str, Any], error: ValidationError) -> bool:
    """Take out what was wrong, so that sections can still be held against each other; whether there was anything."""
    found = False
    for problem in error.errors():
        place: Any = values
        for name in problem["loc"][:-1]:
            place = place.get(name) if isinstance(place, dict) else None
        if problem["loc"] and isinstance(place, dict) and problem["loc"][-1] in place:
            del place[problem["loc"][-1]]
            found = True
    return found


def _explain(error: ValidationError) -> list[str]:
    """One short sentence for each thing that is wrong."""
    lines = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(f"{where}: is now {RENAMED[where]}" if where in RENAMED else f"{where}: unknown key")
        elif problem["type"] == "missing":
            lines.append(f"{where}: missing")
        else:
            said = problem["msg"].removeprefix("Value error, ")
            lines += [f"{where}: {line}" if where else line for line in said.splitlines()]
    return lines
