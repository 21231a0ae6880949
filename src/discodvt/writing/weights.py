"""The weights of a checkpoint, read straight from its safetensors when asked for, as float32.

Writing needs neither the model classes of transformers nor what they import: that would double the time to the first
word. A pickle is never opened.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from discodvt.errors import BadRequest


class Weights:
    """Tensors by name; `under("decoder.")` gives those below a name."""

    def __init__(self, directory: Path, device: torch.device) -> None:
        self.directory, self._device, self._prefix = directory, device, ""
        files = sorted(directory.glob("*.safetensors"))
        if not files:
            raise BadRequest(f"{directory}: no weights in safetensors in it; copy or convert them")
        try:
            opened: list[Any] = [safe_open(file, framework="pt") for file in files]
        except (SafetensorError, OSError) as error:
            raise BadRequest(f"{directory}: its safetensors cannot be opened ({error}); copy them again") from None
        self._homes: dict[str, Any] = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (no mapping)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._homes

    def __getitem__(self, name: str) -> Tensor:
        name = self._prefix + name
        if name not in self._homes:
            raise BadRequest(
                f"{self.directory}: no weight {name}, which config.json calls for; copy the directory again"
            )
        weight: Tensor = self._homes[name].get_tensor(name)
        return weight.to(self._device, torch.float32)

    def under(self, prefix: str) -> "Weights":
        below = object.__new__(Weights)
        below.__dict__ |= self.__dict__ | {"_prefix": self._prefix + prefix}
        return below

    def first(self, *names: str) -> Tensor:
        """The first of these names that is there: tied weights are stored under one of theirs."""
        return self[next((name for name in names if name in self), names[0])]


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON file of settings; empty where there is none."""
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise BadRequest(f"{path}: no JSON object in it; copy the directory again") from None
