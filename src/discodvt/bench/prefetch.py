"""Bench of batches made in the background: a training step with them against one whose batches are made in line.

The thread does what the step did itself, so CPU time may not grow; by the clock a step is shorter where a core is free.
Both kinds of step take turns many times over the same micro-batches.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from discodvt.bench.rows import BenchRow, ratio_row
from discodvt.bench.train import make_update
from discodvt.data.batches import Batch, Rows
from discodvt.training.prefetch import MicroBatch, Prefetch, micro_batches

STEPS = 4  # of one turn: the thread is started anew for each
STORIES = 4  # of a micro-batch, if a step has as many
NOISE = 1.02  # what two equal kinds of step may differ by


@dataclass(frozen=True, slots=True)
class _Order:
    """The same stories at every step."""

    rows: Rows  # [M, size]

    def step(self, number: int) -> Rows:
        return self.rows


def prefetch_row(*, rounds: int = 41, scale: float = 1.0) -> BenchRow:
    """CPU time with a thread over CPU time without."""
    feed, rows, update = make_update("causal", planned=True, scale=scale / 4)  # short steps, many turns
    size = min(STORIES, len(rows))
    order = _Order(rows[: len(rows) // size * size].reshape(-1, size))

    def in_line() -> Iterator[MicroBatch]:
        return micro_batches(order, feed, steps=range(STEPS))

    taken: dict[str, list[tuple[float, float]]] = {"ahead": [], "in line": []}
    _turn(in_line(), update)  # warm up
    for turn in range(rounds):
        for kind in ("ahead", "in line") if turn % 2 else ("in line", "ahead"):
            started = time.process_time(), time.perf_counter()
            if kind == "ahead":
                ahead = Prefetch(in_line())
                _turn(ahead, update)
                ahead.close()
            else:
                _turn(in_line(), update)
            taken[kind].append((time.process_time() - started[0], time.perf_counter() - started[1]))
    (cpu, clock), (plain_cpu, plain_clock) = (zip(*taken[kind], strict=True) for kind in ("ahead", "in line"))
    by_clock = median(a / b for a, b in zip(clock, plain_clock, strict=True))
    note = f"CPU time, {rounds} rounds; by the clock {by_clock:.3f}; {1000 * median(cpu) / STEPS:.0f} ms a step"
    return ratio_row("step with batches made ahead / in line", cpu, plain_cpu, at_most=NOISE, note=note)


def _turn(batches: Iterable[MicroBatch], update: Callable[[Batch], None]) -> None:
    for each in batches:
        update(each.batch)
