"""Checkpoints of a run: the last one, to resume from, and the best one, to keep. Safetensors and JSON, nothing else.

Each is a directory `last-STEP` or `best-STEP`, written under a temporary name and renamed; older ones are removed only
then, so a run killed at any moment finds one that is whole. Optimizer states are gathered by parameter name, so they
may be resumed with another number of processes.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from discodvt.artefacts import TEMPORARY
from discodvt.errors import WorkFailed
from discodvt.training.stages import Stage

OPTIMIZER = "optimizer.safetensors"
OPTIMIZER_BEFORE = "optimiser.safetensors"  # its name in runs of version 0.1
PROGRESS = "progress.json"
_FULL = StateDictOptions(full_state_dict=True, ignore_frozen_params=True)
_GATHERED = replace(_FULL, cpu_offload=True)  # on the first process only


class Checkpoints:
    """The checkpoints in a run's directory. `describe(directory, progress)` adds tokenizer and model card to each."""

    def __init__(self, directory: Path, describe: Callable[[Path, dict[str, Any]], None]) -> None:
        self.directory = directory
        self.describe = describe

    def newest(self, kind: str) -> Path | None:
        """The checkpoint of a kind (`last` or `best`) with the highest step."""
        found = [path for path in self.directory.glob(f"{kind}-*") if path.suffix != TEMPORARY]
        return max(found, default=None, key=lambda path: int(path.name.partition("-")[2]))

    def progress(self, kind: str = "last") -> dict[str, Any] | None:
        """How far the run had come at a checkpoint, or None where there is none."""
        saved = self.newest(kind)
        return None if saved is None else dict(json.loads((saved / PROGRESS).read_text(encoding="utf-8")))

    def save(
        self,
        kind: str,
        progress: dict[str, Any],
        *,
        accelerator: Accelerator,
        stage: Stage,
        optimizer: torch.optim.Optimizer | None,
    ) -> None:
        """Write a checkpoint; with an optimizer it can be resumed. Every process takes part, the first one writes."""
        weights = accelerator.get_state_dict(stage)
        state = None if optimizer is None else get_optimizer_state_dict(stage, optimizer, options=_GATHERED)
        if accelerator.is_main_process:
            final = self.directory / f"{kind}-{progress['step']:07d}"
            partial = final.with_name(final.name + TEMPORARY)
            shutil.rmtree(partial, ignore_errors=True)
            prefix = "model."
            named = {name.removeprefix(prefix): weight for name, weight in weights.items()}
            accelerator.unwrap_model(stage).model.save_pretrained(partial, state_dict=named)
            if state is not None:
                save_file(_flat(state["state"]), partial / OPTIMIZER)
            (partial / PROGRESS).write_text(json.dumps(progress, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            self.describe(partial, progress)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            for stale in self.directory.glob(f"{kind}-*"):
                if stale != final:
                    shutil.rmtree(stale)
        accelerator.wait_for_everyone()

    def restore(self, *, accelerator: Accelerator, stage: Stage, optimizer: torch.optim.Optimizer) -> None:
        """Optimizer state of the last checkpoint (its weights were loaded when the model was opened)."""
        last = self.newest("last")
        if last is None:
            raise WorkFailed(f"{self.directory}: no checkpoint to resume from")
        path = last / OPTIMIZER
        path = path if path.exists() else last / OPTIMIZER_BEFORE
        state: dict[str, Any] = {"state": _nested(load_file(path))}
        fresh = get_optimizer_state_dict(stage, optimizer, options=_FULL)
        names = [name for group in fresh["param_groups"] for name in group["params"]]  # type: ignore[index,union-attr]
        missing = sorted(set(names) - state["state"].keys())
        if missing:
            raise WorkFailed(f"{path}: no state for {missing[0]}; start over with --overwrite")
        set_optimizer_state_dict(stage, optimizer, state | {"param_groups": fresh["param_groups"]}, options=_FULL)

    def publish_best(self, target: Path) -> None:
        """Copy the best checkpoint's files to where `from_pretrained` will look for them."""
        best = self.newest("best") or self.newest("last")
        if best is None:
            raise WorkFailed(f"{self.directory}: no checkpoint was written")
        target.mkdir(exist_ok=True)
        for path in sorted(best.iterdir()):
            if path.name not in (OPTIMIZER, PROGRESS):
                partial = target / (path.name + TEMPORARY)
                shutil.copyfile(path, partial)
                partial.replace(target / path.name)

    def drop_best(self) -> None:
        """Remove `best-STEP` once its files are in place."""
        best = self.newest("best")
        if best is not None:
            shutil.rmtree(best)


def _flat(state: Any) -> dict[str, torch.Tensor]:
    """State by parameter and kind, as flat names: `name|exp_avg`."""
    return {f"{name}|{kind}": value.contiguous() for name, kinds in state.items() for kind, value in kinds.items()}


def _nested(flat: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    nested: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        name, _, kind = key.rpartition("|")
        nested.setdefault(name, {})[kind] = value
    return nested
