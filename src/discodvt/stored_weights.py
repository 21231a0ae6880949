"""What a checkpoint stores: tensors by name, all of a model's, or the part that was trained on top of a base.

A part is `trained.safetensors` and `base.json`, which names the language model it belongs to (`Part`). Read by name it
is whole: what it lacks is its base's, LoRA added. `discodvt.checkpoints` finds the base; PEFT is not needed here.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from discodvt.artefacts import file_hash
from discodvt.errors import BadRequest, WorkFailed, first_line
from discodvt.stored_files import read_settings

WHOLE = "model.safetensors"
TRAINED = "trained.safetensors"
BASE = "base.json"
RESCORING = "rescoring.json"  # how the parts of an Aristotelian Rescoring work together
PEFT_NAME = ".default."  # what PEFT adds to the names of a set of LoRA matrices, for there may be several
_LORA = ".lora_A.weight"


@dataclass(frozen=True, slots=True)
class Part:
    """`base.json`: what the weights that are not stored are, and what was added to them."""

    base: str  # a Hub id, or the path of a directory
    revision: str | None  # of a Hub id
    sha256: str  # of the base's weights
    model_type: str  # of the base's language model
    inside: str  # the name under which that language model is in this one: `generator.`, or nothing
    lora: dict[str, Any] | None = None  # rank, alpha, dropout, target_modules, fan_in_fan_out

    @classmethod
    def read(cls, directory: Path) -> "Part | None":
        """The part a directory holds; None where it is a whole model."""
        if not (directory / BASE).exists():
            return None
        try:
            part = cls(**read_settings(directory / BASE))
            fine = part.lora is None or (part.scale > 0 and part.lora["fan_in_fan_out"] in (True, False))
        except (TypeError, KeyError, ZeroDivisionError):
            fine = False
        if not fine:
            raise BadRequest(f"{directory / BASE}: not as it was written; copy the directory again")
        return part

    def write(self, directory: Path) -> None:
        (directory / BASE).write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    @property
    def scale(self) -> float:
        """What the product of the two LoRA matrices is multiplied by."""
        return float(self.lora["alpha"] / self.lora["rank"]) if self.lora is not None else 0.0

    def __str__(self) -> str:
        return f"{self.base}, revision {self.revision}" if self.revision else self.base


class Weights:
    """Tensors by name, read from safetensors when asked for, as float32; `under("decoder.")`: those below a name."""

    def __init__(self, directory: Path, device: torch.device | str = "cpu") -> None:
        self.directory, self._device, self._prefix = directory, device, ""
        files = weight_files(directory)
        try:
            opened: list[Any] = [safe_open(file, framework="pt") for file in files]
        except (SafetensorError, OSError) as error:
            raise BadRequest(f"{directory}: its safetensors cannot be opened ({error}); copy them again") from None
        self._homes: dict[str, Any] = {name: file for file in opened for name in file.keys()}  # noqa: SIM118 (no mapping)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._homes

    def __getitem__(self, name: str) -> Tensor:
        weight: Tensor = self._home(name).get_tensor(self._prefix + name)
        return weight.to(self._device, torch.float32)

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._homes if name.startswith(self._prefix))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a weight, from the header alone."""
        return tuple(self._home(name).get_slice(self._prefix + name).get_shape())

    def under(self, prefix: str) -> "Weights":
        below = copy(self)
        below._prefix = self._prefix + prefix
        return below

    def first(self, *names: str) -> Tensor:
        """The first of these names that is there: tied weights are stored under one of theirs."""
        return self[next((name for name in names if name in self), names[0])]

    def _home(self, name: str) -> Any:
        if self._prefix + name not in self._homes:
            raise BadRequest(f"{self.directory}: no weight {self._prefix + name}; copy the directory again")
        return self._homes[self._prefix + name]


class PartWeights(Weights):
    """The weights of a part, and below `part.inside` those of the base's language model, LoRA added."""

    def __init__(self, directory: Path, part: Part, base: Weights, device: torch.device | str = "cpu") -> None:
        super().__init__(directory, device)
        self._part, self._base = part, base

    def __contains__(self, name: str) -> bool:
        return super().__contains__(name) or self._name_in_base(name) is not None

    def __getitem__(self, name: str) -> Tensor:
        found = self._name_in_base(name)
        return super().__getitem__(name) if found is None else self.with_lora(name, self._base[found])

    def __iter__(self) -> Iterator[str]:
        yield from self.own()
        for name in (self._part.inside + name for name in self._base):
            if name.startswith(self._prefix):
                yield name.removeprefix(self._prefix)

    def shape(self, name: str) -> tuple[int, ...]:
        found = self._name_in_base(name)
        return super().shape(name) if found is None else self._base.shape(found)

    def own(self) -> Iterator[str]:
        """Names of what is stored here, without LoRA."""
        return (name for name in super().__iter__() if not is_lora(name))

    def lora(self) -> dict[str, Tensor]:
        """The LoRA matrices, by their names below `part.inside`."""
        names = [name for name in self._homes if is_lora(name)]
        return {name.removeprefix(self._part.inside): Weights.__getitem__(self, name) for name in names}

    def with_lora(self, name: str, weight: Tensor) -> Tensor:
        """A weight of the base, and the product of its LoRA matrices where it has any."""
        stem = name.removesuffix(".weight")
        if self._prefix + stem + _LORA not in self._homes:
            return weight
        down, up = (Weights.__getitem__(self, f"{stem}.lora_{side}.weight") for side in "AB")
        change = (up @ down) * self._part.scale
        return weight + (change.T if self._part.lora and self._part.lora["fan_in_fan_out"] else change)

    def _name_in_base(self, name: str) -> str | None:
        """The base's name for a weight: some checkpoints leave the first part (`model.`, `transformer.`) out."""
        whole = self._prefix + name
        if whole in self._homes or not whole.startswith(self._part.inside):
            return None
        below = whole.removeprefix(self._part.inside)
        return next((found for found in (below, below.partition(".")[2]) if found in self._base), None)


def holds_a_part(source: str | PathLike[str], settings: dict[str, Any]) -> bool:
    """Whether there is a `base.json` in a directory or a Hub repository; `settings` as of `from_pretrained`."""
    from transformers.utils.hub import cached_file

    if Path(source).is_dir():
        return (Path(source) / BASE).exists()
    asked = {
        name: settings[name] for name in ("revision", "token", "cache_dir", "local_files_only") if name in settings
    }
    quiet = {f"_raise_exceptions_for_{what}": False for what in ("gated_repo", "missing_entries", "connection_errors")}
    try:
        return cached_file(str(source), BASE, **asked, **quiet) is not None
    except OSError:  # no such repository: the library says so
        return False


def weight_files(directory: Path) -> list[Path]:
    """The files of a model's weights: one, or those its index names."""
    index = read_settings(directory / f"{WHOLE}.index.json")
    for name in (TRAINED, WHOLE):
        if (directory / name).exists():
            return [directory / name]
    files = sorted({directory / str(file) for file in dict(index.get("weight_map", {})).values()})
    files = files or sorted(directory.glob("*.safetensors"))
    if not files:
        pickles = sorted([*directory.glob("*.bin"), *directory.glob("*.pt")])
        found = f" ({pickles[0].name} is a pickle, which is never loaded)" if pickles else ""
        raise BadRequest(f"{directory}: no weights in safetensors in it{found}; copy or convert them")
    return files


def weights_hash(directory: Path) -> str:
    """SHA-256 of a model's weights: of their file, or of the hashes of all their files."""
    hashes = [_kept_hash(file, file.stat().st_size, file.stat().st_mtime_ns) for file in weight_files(directory)]
    return hashes[0] if len(hashes) == 1 else sha256("".join(hashes).encode()).hexdigest()


def writer_hash(directory: Path) -> str:
    """Which model wrote something, in 16 digits: of its weights and, where it has one, of its prior's."""
    parts = [weights_hash(part) for part in writer_parts(directory)]
    settings = [file_hash(path) for path in [directory / RESCORING] if path.exists()]
    return sha256("".join([*parts, *settings]).encode()).hexdigest()[:16]


def writer_parts(directory: Path) -> list[Path]:
    """The directories a writer is opened from: its own, that of its prior, and those of Aristotelian Rescoring."""
    inside = [directory / "prior", directory / "plot-writer", *sorted(directory.glob("scorers/*"))]
    return [directory, *(part for part in inside if part.is_dir())]


@lru_cache
def _kept_hash(file: Path, size: int, changed: int) -> str:
    return file_hash(file)


@contextmanager
def writing_weights(path: Path) -> Iterator[None]:
    """A full disk as one line: safetensors has an error of its own for it."""
    try:
        yield
    except SafetensorError as error:
        raise WorkFailed(f"{path}: cannot be written ({first_line(error)})") from None


def is_lora(name: str) -> bool:
    """Whether a weight is one of LoRA's matrices."""
    return ".lora_" in name


def trained_weights(part: Part, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Of the weights of a model in training those that are stored with a part."""
    return {
        name.replace(PEFT_NAME, "."): weight
        for name, weight in weights.items()
        if is_lora(name) or not name.startswith(part.inside)
    }
