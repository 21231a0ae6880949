"""The one training loop, of every stage. A generator: it yields an `Event` for everything worth showing, and no more.

A step is a pure function of the weights, the optimizer's state and the step's number: the rows, their noise, the
dropout seed and the learning rate all follow from it. So a run that is killed and resumed goes on as if nothing had
happened, bit for bit on a CPU.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from discodvt.config import LoopSettings, Optimizer
from discodvt.errors import WorkFailed
from discodvt.stored_weights import is_lora
from discodvt.training.outputs import Checkpoints, Journal
from discodvt.training.prefetch import MicroBatch, Prefetch, micro_batches
from discodvt.training.sharding import gathered, whole
from discodvt.training.stages import Counts, Figures, Objective, Stage, Tallies, step_seed
from discodvt.training.validation import add_tallies, on_device, validate

LOOKED_AT = 1  # the step whose gradients are looked at: what stands before weights that begin as zeros has none before


class Event(NamedTuple):
    """Something to show: figures of training or validation, a warning, or a note."""

    kind: str  # step, train, valid, warning, note
    step: int
    total: int
    figures: Figures
    message: str = ""


@dataclass
class RunProgress:
    """Where a run stands; all that a resumed run must know besides weights and optimizer."""

    step: int = 0
    tokens: int = 0  # or codes, or pairs: what the first term of the loss is a mean over
    best_step: int | None = None
    best_value: float | None = None
    window: dict[str, Any] = field(default_factory=dict)  # sums since figures were last written
    figures: Figures = field(default_factory=dict)  # of the last validation
    alarms: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)  # trained, but without gradient at the second step
    changes: list[dict[str, Any]] = field(default_factory=list)  # of settings on resume: key, from, to, step


@dataclass
class Loop:
    """A stage under training."""

    stage: Stage
    settings: LoopSettings
    accelerator: Accelerator
    checkpoints: Checkpoints
    progress: RunProgress
    journal: Journal | None  # on the first process only
    module: Any = field(init=False)  # the objective, wrapped for all processes
    optimizer: torch.optim.Optimizer = field(init=False)

    def run(self) -> Iterator[Event]:
        """Train from where `progress` stands to the end."""
        objective, settings = self.stage.objective, self.settings.optimizer
        optimizer = torch.optim.AdamW(
            _groups(objective, settings),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.module, prepared = self.accelerator.prepare(objective, optimizer)
        self.optimizer = prepared.optimizer
        progress, total = self.progress, self.stage.total
        if progress.step > 0:
            self.checkpoints.restore(self.module, self.optimizer)
        else:
            yield from self._validate()
        batches = Prefetch(
            micro_batches(
                self.stage.order,
                self.stage.train,
                steps=range(progress.step, total),
                process=self.accelerator.process_index,
                processes=self.accelerator.num_processes,
            )
        )
        try:
            yield from self._steps(batches)
        finally:
            batches.close()

    def _steps(self, batches: Iterator[MicroBatch]) -> Iterator[Event]:
        progress, run, total = self.progress, self.settings.run, self.stage.total
        started, tokens = time.perf_counter(), progress.tokens
        while progress.step < total:
            figures = self._step(progress.step, batches)
            progress.step += 1
            yield Event("step", progress.step, total, figures)
            last = progress.step == total
            if progress.step % run.log_every_steps == 0 or last or progress.step == 1:
                now = time.perf_counter()
                speed = {"tokens_per_second": (progress.tokens - tokens) / max(1e-9, now - started)}
                started, tokens = now, progress.tokens
                yield self._log(speed)
            if progress.step == LOOKED_AT + 1 and progress.unreached:
                names = ", ".join(progress.unreached[:5])
                yield self._note("warning", f"{len(progress.unreached)} trained parameters got no gradient: {names}")
            if progress.step % (self.stage.every_steps or self.settings.validation.every_steps) == 0 or last:
                yield from self._validate()
            if progress.step % (self.stage.every_steps or run.save_every_steps) == 0 or last:
                self._save("last")

    def _step(self, step: int, batches: Iterator[MicroBatch]) -> Figures:
        """One update from all micro-batches of all processes, losses divided by their counts together."""
        accelerator, stage, terms = self.accelerator, self.stage, self.stage.objective.terms
        rate = self._learning_rate(step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate"]
        torch.manual_seed(step_seed(self.settings.seed, step, accelerator.process_index))
        self.module.train()
        sums = torch.zeros(len(terms), device=accelerator.device)
        tallies: Tallies = {}
        last = False
        while not last:
            batch, counts, last = next(batches)
            with nullcontext() if last else accelerator.no_sync(self.module):
                with accelerator.autocast():
                    output = self.module(on_device(batch, accelerator.device), step)
                loss = sum(term.weight * output.sums[name] / max(1, counts[term.per]) for name, term in terms.items())
                accelerator.backward(loss * accelerator.num_processes)  # processes are averaged, their losses add up
            sums += torch.stack([output.sums[name].detach().float() for name in terms])
            add_tallies(tallies, output.tallies)
        most = self.settings.optimizer.max_gradient_norm
        norm = float(whole(accelerator.clip_grad_norm_(self.module.parameters(), most)))
        if not np.isfinite(norm):
            raise WorkFailed(
                f"step {step + 1}: the gradient is not finite at a learning rate of {rate:g}; {stage.remedy}",
                parameter=("resume", "change"),
            )
        if step == LOOKED_AT:
            self.progress.unreached = without_gradient(accelerator.unwrap_model(self.module).named_parameters())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        stage.objective.after_step(accelerator.gather)
        totals = dict(zip(terms, accelerator.reduce(sums).tolist(), strict=True))
        self._count(totals, counts, {name: accelerator.reduce(tally) for name, tally in tallies.items()})
        window = self.progress.window
        window["gradient_norm"] = window.get("gradient_norm", 0.0) + norm
        window["learning_rate"] = rate
        return {name: totals[name] / max(1, counts[term.per]) for name, term in terms.items()}

    def _learning_rate(self, step: int) -> float:
        if self.stage.learning_rate is not None:
            return self.stage.learning_rate(step)
        settings = self.settings.optimizer
        return learning_rate(
            step,
            self.stage.total,
            peak=settings.learning_rate,
            linear=settings.schedule == "linear",
            warmup=settings.warmup_steps,
        )

    def _count(self, sums: dict[str, float], counts: Counts, tallies: Tallies) -> None:
        """Add a step to the window."""
        window, terms = self.progress.window, self.stage.objective.terms
        for name, term in terms.items():
            window[name] = window.get(name, 0.0) + sums[name]
            window[f"{name}/count"] = window.get(f"{name}/count", 0) + counts[term.per]
        held = window.setdefault("tallies", {})
        for name, tally in tallies.items():
            held[name] = (np.array(held.get(name, 0)) + tally.cpu().numpy()).tolist()
        window["steps"] = window.get("steps", 0) + 1
        self.progress.tokens += counts[next(iter(terms.values())).per]

    def _log(self, speed: Figures) -> Event:
        """Write the window's figures and begin a new one."""
        window, objective, step = self.progress.window, self.stage.objective, self.progress.step
        figures = {name: window[name] / max(1, window[f"{name}/count"]) for name in objective.terms}
        figures["loss"] = sum(term.weight * figures[name] for name, term in objective.terms.items())
        figures["gradient_norm"] = window["gradient_norm"] / window["steps"]
        figures["learning_rate"] = window["learning_rate"]
        figures |= objective.schedule(step - 1)
        figures |= objective.figures({name: torch.tensor(tally) for name, tally in window["tallies"].items()})
        self.progress.window = {}
        if self.journal is not None:
            self.journal.write(step, "train", figures, clock=speed)
        return Event("train", step, self.stage.total, figures | speed)

    def _validate(self) -> Iterator[Event]:
        """Figures of the held-out rows; the best checkpoint; alarms, and what the objective does after a validation."""
        progress, stage = self.progress, self.stage
        figures, tallies = validate(
            self.module,
            stage.valid,
            accelerator=self.accelerator,
            batch_size=self.settings.validation.stories_per_batch,
        )
        if stage.measure is not None and progress.step > 0:
            with gathered(self.module):
                figures |= stage.measure()
        progress.figures = figures
        if self.journal is not None:
            self.journal.write(progress.step, "valid", figures)
        yield Event("valid", progress.step, stage.total, figures)
        alarms = stage.objective.alarms(progress.step, figures)
        progress.alarms += [f"step {progress.step}: {alarm}" for alarm in alarms]  # the best model's card has them too
        if progress.step > 0:
            first = figures[next(iter(stage.objective.terms))]
            value = first if stage.score is None else stage.score(progress.step, figures)
            if value is not None and (progress.best_value is None or value < progress.best_value):
                progress.best_step, progress.best_value = progress.step, value
                self._save("best")
        for alarm in alarms:
            yield self._note("warning", alarm)
        if alarms and stage.stop_on_alarm:
            self._save("last")
            raise WorkFailed(f"stopped by the watchdog at step {progress.step}: {alarms[0]}")
        for note in stage.objective.after_validation(progress.step, tallies):
            yield self._note("note", note)

    def _note(self, kind: str, message: str) -> Event:
        return Event(kind, self.progress.step, self.stage.total, {}, message)

    def _save(self, kind: str) -> None:
        self.checkpoints.save(
            kind,
            vars(self.progress),
            accelerator=self.accelerator,
            module=self.module,
            optimizer=self.optimizer if kind == "last" else None,
            describe=self.stage.describe,
        )


def _groups(objective: Objective, settings: Optimizer) -> list[dict[str, Any]]:
    """What is trained, by its learning rate relative to that of new weights (`rate`)."""
    rates = {f"model.{part}.": settings.backbone_rate for part in objective.backbone_parts}
    if settings.posterior_rate is not None and "model.posterior." in rates:
        rates["model.posterior."] = settings.posterior_rate
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in objective.named_parameters():
        if parameter.requires_grad:
            old = () if is_lora(name) else (rate for prefix, rate in rates.items() if name.startswith(prefix))
            groups.setdefault(next(iter(old), 1.0), []).append(parameter)
    return [{"params": parameters, "rate": rate} for rate, parameters in groups.items()]


def learning_rate(step: int, total: int, *, peak: float, linear: bool, warmup: int) -> float:
    """The rate of update `step`, counted from 0: up over `warmup` steps, then down to 0 after the last, or constant."""
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    return peak * (total - step) / max(1, total - warmup) if linear else peak


def without_gradient(parameters: Iterable[tuple[str, nn.Parameter]]) -> list[str]:
    """Names of trained parameters that got no gradient, or one of zeros."""
    return [
        name
        for name, parameter in parameters
        if parameter.requires_grad and (parameter.grad is None or not bool(whole(parameter.grad).any()))
    ]
