"""What a run leaves in its directory: checkpoints, metrics and plots. Safetensors, JSON and PNG, nothing else.

A checkpoint is a directory, `last-STEP` to resume from or `best-STEP` to keep, written under a temporary name and
renamed; older ones are removed only then, so a run killed at any moment finds one that is whole. Optimizer states are
gathered by parameter name, so they may be resumed with another number of processes; with FSDP the weights and optimizer
states of `last-STEP` are shards (`discodvt.training.sharding`), of which the same holds. `metrics.jsonl` holds nothing
that depends on the clock, so a resumed run writes the same lines; speed goes to TensorBoard and the screen.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from accelerate import Accelerator
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

from discodvt.errors import WorkFailed
from discodvt.resumable import TEMPORARY, replacing
from discodvt.stored_weights import BASE, TRAINED, WHOLE, trained_weights, writing_weights
from discodvt.training.sharding import gather, is_sharded, join_shards, load_shards, save_shards, stored_shapes
from discodvt.training.stages import Objective

METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
OPTIMIZER = "optimizer.safetensors"
PROGRESS = "progress.json"
SHARDS, WEIGHTS, STATES = "shards", "weights", "optimizer"
_FULL = StateDictOptions(full_state_dict=True, ignore_frozen_params=True)
_GATHERED = replace(_FULL, cpu_offload=True)  # on the first process only
_OWN = replace(_FULL, full_state_dict=False)  # each process its shards


def step_of(checkpoint: Path | None) -> int:
    """The step at which a checkpoint was written; -1 without one."""
    return -1 if checkpoint is None else int(checkpoint.name.partition("-")[2])


class Checkpoints:
    """The checkpoints in a run's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def newest(self, kind: str) -> Path | None:
        """The checkpoint of a kind (`last` or `best`) with the highest step."""
        return max(self._found(kind), default=None, key=step_of)

    def _found(self, kind: str) -> list[Path]:
        return [path for path in self.directory.glob(f"{kind}-*") if path.suffix != TEMPORARY]

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
        module: Objective,
        optimizer: torch.optim.Optimizer | None,
        describe: Callable[[Path, dict[str, Any]], None],
    ) -> None:
        """Write a checkpoint, to which `describe` adds tokenizer and card; with an optimizer it can be resumed.

        Every process takes part, the first one writes.
        """
        final = self.directory / f"{kind}-{progress['step']:07d}"
        partial = final.with_name(final.name + TEMPORARY)
        if accelerator.is_main_process:
            shutil.rmtree(partial, ignore_errors=True)
        objective: Objective = accelerator.unwrap_model(module)
        held: Any = get_model_state_dict(module) if is_sharded(module) else accelerator.get_state_dict(module)
        state, weights = None, {}
        if optimizer is not None and is_sharded(module):
            accelerator.wait_for_everyone()
            save_shards(partial / SHARDS / WEIGHTS, _stored(objective, held))
            save_shards(
                partial / SHARDS / STATES, _flat(get_optimizer_state_dict(module, optimizer, options=_OWN)["state"])
            )
        else:
            weights = gather(_stored(objective, held), keep=accelerator.is_main_process)
            state = None if optimizer is None else get_optimizer_state_dict(module, optimizer, options=_GATHERED)
        if accelerator.is_main_process:
            weights = weights if optimizer is not None else objective.exported(weights)
            with writing_weights(partial):
                objective.model.save_pretrained(partial, state_dict=weights)
                if state is not None:
                    save_file(_flat(state["state"]), partial / OPTIMIZER)
            if objective.part is not None:
                objective.part.write(partial)
                if (partial / WHOLE).exists():  # else there are shards
                    (partial / WHOLE).rename(partial / TRAINED)
            (partial / PROGRESS).write_text(json.dumps(progress, indent=2, sort_keys=True) + "\n", encoding="utf-8")
            describe(partial, progress)
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
            self._drop_superseded(kind)
        accelerator.wait_for_everyone()

    def _drop_superseded(self, kind: str) -> None:
        """All but the newest of a kind; the best as of the last checkpoint stays, for a resumed run returns to it."""
        newest = {name: self.newest(name) for name in ("last", "best")}
        for path in self._found("last") if kind == "last" else []:
            if path != newest["last"]:
                shutil.rmtree(path)
        for path in self._found("best"):
            if path != newest["best"] and (kind == "last" or step_of(path) > step_of(newest["last"])):
                shutil.rmtree(path)

    def return_to_last(self) -> None:
        """Forget what a killed run left of steps that are made again, maybe with other settings."""
        for path in self._found("best"):
            if step_of(path) > step_of(self.newest("last")):
                shutil.rmtree(path)

    def restore(self, module: Objective, optimizer: torch.optim.Optimizer) -> None:
        """Optimizer state of the last checkpoint (its weights were loaded when the model was opened)."""
        last = self.newest("last")
        if last is None:
            raise WorkFailed(f"{self.directory}: no checkpoint to resume from")
        path = last / OPTIMIZER
        if (last / SHARDS).exists():
            self._restore_shards(last / SHARDS / STATES, module, optimizer)
            return
        state: dict[str, Any] = {"state": _nested(load_file(path))}
        fresh = get_optimizer_state_dict(module, optimizer, options=_FULL)
        groups = cast(list[dict[str, Any]], fresh["param_groups"])
        names = [name for group in groups for name in group["params"]]
        for name in set(names) - state["state"].keys():  # had no gradient so far, so no step was made
            state["state"][name] = fresh["state"][name]
        set_optimizer_state_dict(module, optimizer, state | {"param_groups": fresh["param_groups"]}, options=_FULL)

    def _restore_shards(self, path: Path, module: Objective, optimizer: torch.optim.Optimizer) -> None:
        """The same of a sharded checkpoint: each process reads what it needs."""
        state = get_optimizer_state_dict(module, optimizer, options=_OWN)
        flat = _flat(state["state"])
        missing = sorted(flat.keys() - stored_shapes(path).keys())
        if missing:
            raise WorkFailed(f"{path}: no state for {missing[0]}; start over with `overwrite`", "overwrite")
        load_shards(path, flat)
        set_optimizer_state_dict(module, optimizer, state, options=_OWN)

    def join_last(self) -> None:
        """Put the weights of the last checkpoint together, if it is sharded, so that it opens as any other."""
        last = self.newest("last")
        if last is None or not (last / SHARDS).exists():
            return
        name = TRAINED if (last / BASE).exists() else WHOLE
        if not (last / name).exists():
            with replacing(last / name) as partial, writing_weights(partial):
                save_file(join_shards(last / SHARDS / WEIGHTS), partial, metadata={"format": "pt"})

    def publish_best(self, target: Path) -> None:
        """Copy the best checkpoint's files to where `from_pretrained` will look for them."""
        best = self.newest("best") or self.newest("last")
        if best is None:
            raise WorkFailed(f"{self.directory}: no checkpoint was written")
        if best == self.newest("last"):
            self.join_last()
        target.mkdir(exist_ok=True)
        for path in sorted(best.iterdir()):
            if path.name not in (OPTIMIZER, PROGRESS, SHARDS):
                partial = target / (path.name + TEMPORARY)
                shutil.copyfile(path, partial)
                partial.replace(target / path.name)

    def drop_best(self) -> None:
        """Remove `best-STEP` once its files are in place."""
        for path in self._found("best"):
            shutil.rmtree(path)


def _stored(objective: Objective, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of the weights of an objective those a checkpoint holds, as it names them; tied ones once."""
    tied = {name for name, _ in objective.named_parameters(remove_duplicate=False)}
    tied -= {name for name, _ in objective.named_parameters()}
    named = {name.removeprefix("model."): weight for name, weight in state.items() if name not in tied}
    return named if objective.part is None else trained_weights(objective.part, named)


def _flat(state: Any) -> dict[str, torch.Tensor]:
    """State by parameter and kind, as flat names: `name|exp_avg`."""
    return {f"{name}|{kind}": value.contiguous() for name, kinds in state.items() for kind, value in kinds.items()}


def _nested(flat: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    nested: dict[str, dict[str, torch.Tensor]] = {}
    for key, value in flat.items():
        name, _, kind = key.rpartition("|")
        nested.setdefault(name, {})[kind] = value
    return nested


class Journal:
    """Metrics of one run; on resume, lines past the checkpoint are taken back."""

    def __init__(self, directory: Path, *, step: int, tensorboard: bool) -> None:
        self.path = directory / METRICS
        kept = [line for line in read_metrics(self.path) if line["step"] <= step] if step > 0 else []
        self.path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self.writer = _tensorboard(directory / TENSORBOARD, step) if tensorboard else None

    def write(self, step: int, kind: str, figures: dict[str, float], *, clock: dict[str, float] | None = None) -> None:
        """One line of figures (`train` or `valid`); `clock` figures, such as speed, go to TensorBoard only."""
        line = {"step": step, "kind": kind, **figures}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.writer is not None:
            for name, value in (figures | (clock or {})).items():
                self.writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last line cut short by a kill is dropped."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def plot(directory: Path) -> Path:
    """Every figure of the journal over steps, training and validation together."""
    from matplotlib.figure import Figure

    lines = read_metrics(directory / METRICS)
    names = sorted({name for line in lines for name in line} - {"step", "kind"})
    columns = 3
    rows = max(1, -(-len(names) // columns))
    wide, high = 4.0 * columns, 2.6 * rows
    figure = Figure(figsize=(wide, high))
    # Margins in inches: to let matplotlib find them takes as long as to draw everything.
    figure.subplots_adjust(0.5 / wide, 0.3 / high, 1 - 0.1 / wide, 1 - 0.3 / high, wspace=0.2, hspace=0.3)
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, place + 1)
        for kind, style in (("train", "-"), ("valid", "o-")):
            points = [(line["step"], line[name]) for line in lines if line["kind"] == kind and name in line]
            if points:
                axes.plot(*zip(*points, strict=True), style, label=kind, markersize=3, linewidth=1)
        axes.set_title(name.replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7)
    path = directory / "training.png"
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def _tensorboard(directory: Path, step: int) -> Any:
    """A TensorBoard writer, where TensorBoard is installed (the `tensorboard` extra)."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=step + 1 if step > 0 else None)
