"""A bench row: a ratio with its spread beside what was promised, and the interleaved timing that measures it."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from rich.text import Text

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One promise and what was measured: the ratio's median and range over the rounds; None: not measured."""

    name: str
    ratio: float | None
    low: float | None
    high: float | None
    promise: str
    kept: bool | None  # None: a figure reported without a promise, or none measured
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_line(self) -> Text:
        """The row for a terminal."""
        marks = {True: ("kept    ", "green"), False: ("broken  ", "red"), None: ("        ", "")}
        measured = "not measured"
        if self.ratio is not None:
            measured = f"{self.ratio:6.2f}  ({self.low:.2f} to {self.high:.2f})"
        return Text.assemble(
            marks[self.kept], f"{measured:24}  {self.promise:15}  {self.name}", (f"  {self.note}", "dim")
        )


def interleave(
    works: Sequence[Callable[[], object]],
    rounds: int,
    *,
    seconds: float | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Seconds of each work in each round; the works take turns and the order turns too, so noise falls on all alike.

    After so many seconds of the clock no further round is begun. `time.process_time` leaves out what others compute,
    `cpu_seconds` counts commands that were run to their end too.
    """
    taken: list[list[float]] = [[] for _ in works]
    ends = None if seconds is None else clock() + seconds
    for turn in range(rounds):
        if turn and ends is not None and clock() > ends:
            break
        order = range(len(works)) if turn % 2 == 0 else reversed(range(len(works)))
        for which in order:
            started = clock()
            works[which]()
            taken[which].append(clock() - started)
    return taken


def cpu_seconds() -> float:
    """CPU seconds of this process and of all it has started and waited for, with theirs."""
    return sum(os.times()[:4])


class OtherWork:
    """How much of the machine others use from here on: a speed by the clock then says little (Linux; else 0)."""

    def __init__(self) -> None:
        self._clock, self._theirs = time.perf_counter(), self._so_far()

    def cores(self) -> float:
        """Cores that other processes have kept busy since, on average."""
        return max(0.0, self._so_far() - self._theirs) / max(1e-9, time.perf_counter() - self._clock)

    @staticmethod
    def _so_far() -> float:
        try:
            user, nice, system, _, _, *interrupts = map(int, _STAT.read_text().split("\n")[0].split()[1:9])
        except OSError:
            return 0.0
        return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK") - cpu_seconds()


def ratio_row(
    name: str,
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    within: float | None = None,
    note: str = "",
) -> BenchRow:
    """The median over rounds of numerator / denominator, held against a bound."""
    ratios = sorted(a / b for a, b in zip(numerator, denominator, strict=True))
    value, kept = median(ratios), None
    if at_most is not None:
        kept = value <= at_most
    elif at_least is not None:
        kept = value >= at_least
    elif within is not None:
        kept = abs(value - 1) <= within
    return BenchRow(name, value, ratios[0], ratios[-1], _promise(at_most, at_least, within), kept, note)


def unmeasured_row(name: str, why: str, *, at_most: float | None = None, at_least: float | None = None) -> BenchRow:
    """A promise that could not be measured, and why."""
    return BenchRow(name, None, None, None, _promise(at_most, at_least), None, why)


def _promise(at_most: float | None, at_least: float | None, within: float | None = None) -> str:
    if at_most is not None:
        return f"at most {at_most:g}"
    if within is not None:
        return f"1 ± {within:g}"
    return "reported" if at_least is None else f"at least {at_least:g}"
