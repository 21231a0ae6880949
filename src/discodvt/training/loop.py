"""The one training loop. A generator: it yields an `Event` for everything worth showing, and knows no screen.

A step is a pure function of the weights, the optimizer's state and the step's number: the stories, their noise, the
dropout seed, the learning rate and the temperature all follow from it. So a run that is killed and resumed goes on as
if nothing had happened, bit for bit on a CPU.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator

from discodvt.config import Recipe
from discodvt.data.batches import Order
from discodvt.errors import WorkFailed
from discodvt.training.checkpoints import Checkpoints
from discodvt.training.feeds import Feed
from discodvt.training.journal import Journal
from discodvt.training.schedules import RelaxationSchedule, learning_rate
from discodvt.training.stages import Plan, Stage, Term
from discodvt.training.validation import on_device, validate
from discodvt.training.watchdog import Figures, Watchdog, usage, without_gradient


class Event(NamedTuple):
    """Something to show: figures of training or validation, a warning, or a note."""

    kind: str  # step, train, valid, warning, note
    step: int
    total: int
    figures: Figures
    message: str = ""


@dataclass
class Progress:
    """Where a run stands; all that a resumed run must know besides weights and optimizer."""

    step: int = 0
    tokens: int = 0
    best_step: int | None = None
    best_value: float | None = None
    window: dict[str, Any] = field(default_factory=dict)  # sums since figures were last written
    figures: Figures = field(default_factory=dict)  # of the last validation
    alarms: list[str] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)  # trained, but without gradient at the first step


@dataclass
class Loop:
    """A stage, what it reads, and what watches it. `measure` adds figures to a validation (BLEU-1, for instance)."""

    stage: Stage
    train_feed: Feed
    valid_feed: Feed
    order: Order
    total: int
    relaxation: RelaxationSchedule
    recipe: Recipe
    accelerator: Accelerator
    checkpoints: Checkpoints
    watchdog: Watchdog
    progress: Progress
    journal: Journal | None  # on the first process only
    measure: Callable[[Any], Figures] | None = None
    terms: dict[str, Term] = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)

    def run(self) -> Iterator[Event]:
        """Train from where `progress` stands to the end."""
        settings = self.recipe.optimizer
        trained = [parameter for parameter in self.stage.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(
            trained,
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.terms = self.stage.terms
        self.stage, prepared = self.accelerator.prepare(self.stage, optimizer)
        self.optimizer = prepared.optimizer
        progress, run = self.progress, self.recipe.run
        if progress.step > 0:
            self.checkpoints.restore(accelerator=self.accelerator, stage=self.stage, optimizer=self.optimizer)
        else:
            yield from self._validate()
        started, tokens = time.perf_counter(), progress.tokens
        while progress.step < self.total:
            figures = self._step(progress.step)
            progress.step += 1
            yield Event("step", progress.step, self.total, figures)
            last = progress.step == self.total
            if progress.step % run.log_every_steps == 0 or last or progress.step == 1:
                now = time.perf_counter()
                speed = {"tokens_per_second": (progress.tokens - tokens) / max(1e-9, now - started)}
                started, tokens = now, progress.tokens
                yield self._log(speed)
            if progress.step == 1 and progress.unreached:
                names = ", ".join(progress.unreached[:5])
                yield self._note("warning", f"{len(progress.unreached)} trained parameters got no gradient: {names}")
            if progress.step % self.recipe.validation.every_steps == 0 or last:
                yield from self._validate()
            if progress.step % run.save_every_steps == 0 or last:
                self._save("last")

    def _step(self, step: int) -> Figures:
        """One update from all micro-batches of all processes, losses divided by their counts together."""
        accelerator, settings = self.accelerator, self.recipe.optimizer
        micro_batches = self.order.step(step)
        counts = self.train_feed.counts(micro_batches.ravel())
        mine = micro_batches[accelerator.process_index :: accelerator.num_processes]
        rate = learning_rate(
            step,
            self.total,
            peak=settings.learning_rate,
            linear=settings.schedule == "linear",
            warmup=settings.warmup_steps,
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        temperature, noisy = self.relaxation.temperature(step), self.relaxation.noisy(step)
        word_dropout = self.relaxation.word_dropout(step)
        torch.manual_seed(dropout_seed(self.recipe.seed, step, accelerator.process_index))
        self.stage.train()
        sums = torch.zeros(len(self.terms), device=accelerator.device)
        codes: torch.Tensor | None = None
        for place, rows in enumerate(mine):
            batch = self.train_feed.batch(rows, step=step, noisy=noisy, word_dropout=word_dropout)
            batch = on_device(batch, accelerator.device)
            with nullcontext() if place == len(mine) - 1 else accelerator.no_sync(self.stage):
                output = self.stage(batch, temperature)
                loss = sum(
                    term.weight * output.sums[name] / max(1, counts[term.per]) for name, term in self.terms.items()
                )
                accelerator.backward(loss * accelerator.num_processes)  # processes are averaged, their losses add up
            sums += torch.stack([output.sums[name].detach().float() for name in self.terms])
            if output.code_counts is not None:
                codes = output.code_counts if codes is None else codes + output.code_counts
        norm = float(accelerator.clip_grad_norm_(self.stage.parameters(), settings.max_gradient_norm))
        if not np.isfinite(norm):
            raise WorkFailed(
                f"step {step + 1}: the gradient is not finite; resume from the last checkpoint with a lower "
                "optimizer.learning_rate, or in float32 (run.precision)"
            )
        if step == 0:
            self.progress.unreached = without_gradient(accelerator.unwrap_model(self.stage).named_parameters())
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        totals = accelerator.reduce(sums).tolist()
        codes = None if codes is None else accelerator.reduce(codes)
        return self._count(dict(zip(self.terms, totals, strict=True)), counts, codes, norm, rate, temperature)

    def _count(
        self,
        sums: dict[str, float],
        counts: dict[str, int],
        codes: torch.Tensor | None,
        norm: float,
        rate: float,
        temperature: float,
    ) -> Figures:
        """Add a step to the window, and return its own means."""
        window = self.progress.window
        for name, term in self.terms.items():
            window[name] = window.get(name, 0.0) + sums[name]
            window[f"{name}/count"] = window.get(f"{name}/count", 0) + counts[term.per]
        window["steps"] = window.get("steps", 0) + 1
        window["gradient_norm"] = window.get("gradient_norm", 0.0) + norm
        window["learning_rate"] = rate
        figures = {name: sums[name] / max(1, counts[term.per]) for name, term in self.terms.items()}
        if codes is not None:
            window["temperature"] = temperature
            window["codes"] = (np.array(window.get("codes", 0)) + codes.cpu().numpy()).tolist()
            figures["codes_used"] = float((codes > 0).sum())
        self.progress.tokens += counts.get("tokens", counts.get("codes", 0))
        return figures

    def _log(self, speed: Figures) -> Event:
        """Write the window's figures and begin a new one."""
        window = self.progress.window
        figures = {name: window[name] / max(1, window[f"{name}/count"]) for name in self.terms}
        figures["loss"] = sum(term.weight * figures[name] for name, term in self.terms.items())
        figures["gradient_norm"] = window["gradient_norm"] / window["steps"]
        figures["learning_rate"] = window["learning_rate"]
        if "codes" in window:
            figures |= {"temperature": window["temperature"]} | usage(torch.tensor(window["codes"]))
        self.progress.window = {}
        if self.journal is not None:
            self.journal.write(self.progress.step, "train", figures, clock=speed)
        return Event("train", self.progress.step, self.total, figures | speed)

    def _validate(self) -> Iterator[Event]:
        """Figures of the held-out stories; the best checkpoint; the watchdog's verdict."""
        progress, settings = self.progress, self.recipe.validation
        figures, codes = validate(
            self.stage, self.valid_feed, accelerator=self.accelerator, stories_per_batch=settings.stories_per_batch
        )
        if self.measure is not None and progress.step > 0:
            figures |= self.measure(self.accelerator.unwrap_model(self.stage).model)
        progress.figures = figures
        if self.journal is not None:
            self.journal.write(progress.step, "valid", figures)
        yield Event("valid", progress.step, self.total, figures)
        alarms = self.watchdog.alarms(progress.step, figures)
        progress.alarms += [f"step {progress.step}: {alarm}" for alarm in alarms]  # the best model's card has them too
        by_bleu = settings.select_by == "bleu-1"
        value = -figures["bleu_1"] if by_bleu and "bleu_1" in figures else figures[next(iter(self.terms))]
        if progress.step > 0 and (progress.best_value is None or value < progress.best_value):
            progress.best_step, progress.best_value = progress.step, value
            self._save("best")
        for alarm in alarms:
            yield self._note("warning", alarm)
        if alarms and self.recipe.watchdog.on_alarm == "stop":
            self._save("last")
            raise WorkFailed(f"stopped by the watchdog at step {progress.step}: {alarms[0]}")
        if codes is not None and self.recipe.watchdog.restart_dead_codes and 0 < progress.step < 0.8 * self.total:
            yield from self._restart(codes)

    def _restart(self, codes: torch.Tensor) -> Iterator[Event]:
        """Give each unused code a new start beside one of the most used; the same on every process."""
        dead = torch.nonzero(codes == 0).flatten()
        used = codes.argsort(descending=True, stable=True)[: len(codes) - len(dead)]
        stage = self.accelerator.unwrap_model(self.stage)
        if len(dead) and isinstance(stage, Plan) and stage.model.bottleneck.restartable:
            seed = dropout_seed(self.recipe.seed, self.progress.step, 0)
            random = torch.Generator().manual_seed(seed)
            busy = used[torch.arange(len(dead), device=used.device) % len(used)]
            stage.model.bottleneck.restart(dead, busy, generator=random)
            yield self._note("note", f"{len(dead)} dead codes restarted")

    def _note(self, kind: str, message: str) -> Event:
        return Event(kind, self.progress.step, self.total, {}, message)

    def _save(self, kind: str) -> None:
        self.checkpoints.save(
            kind,
            vars(self.progress),
            accelerator=self.accelerator,
            stage=self.stage,
            optimizer=self.optimizer if kind == "last" else None,
        )


def dropout_seed(seed: int, step: int, process: int) -> int:
    """A seed of its own for each step and process, so that no random state needs to be saved."""
    return int(np.random.SeedSequence([seed, step, process]).generate_state(1, np.uint64)[0] >> np.uint64(1))
