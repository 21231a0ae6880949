"""CPU time and memory of a command and of all it starts, whoever they belong to when they end: read from /proc (Linux).

What a process has used is known as of the last look at it, a quarter of a second before its end at most.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from discodvt.errors import WorkFailed

LOOK_SECONDS = 0.25
PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(slots=True)
class _Process:
    parent: int
    begun: int  # tells it from a later one of the same number
    cpu_seconds: float
    name: str
    memory: dict[str, int] = field(default_factory=dict)  # most bytes seen: VmHWM all of it, RssShmem what is shared


@dataclass(slots=True)
class ProcessTree:
    """A process and its descendants; one that has lost its parent since is still known."""

    root: int
    seen: dict[tuple[int, int], _Process] = field(default_factory=dict)

    def look(self) -> None:
        """Take down what those that run have used so far."""
        running = {pid: found for pid in _numbers() if (found := _read(pid)) is not None}
        known = {pid for pid, begun in self.seen if pid in running and running[pid].begun == begun} | {self.root}
        while more := {pid for pid, each in running.items() if each.parent in known and pid not in known}:
            known |= more
        for pid in known & running.keys():
            each = running[pid]
            before = self.seen.get((pid, each.begun))
            each.memory = _most(before.memory if before else {}, _memory(pid))
            self.seen[pid, each.begun] = each

    @property
    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds for each in self.seen.values())

    def peak(self, kind: str, *, name: str | None = None) -> int:
        """The most memory of a kind that the root, or any process of a name, has held, in bytes."""
        chosen = (
            each for (pid, _), each in self.seen.items() if (pid == self.root if name is None else each.name == name)
        )
        return max((each.memory.get(kind, 0) for each in chosen), default=0)

    def largest(self, kind: str) -> int:
        """The most memory of a kind that any of them has held, in bytes."""
        return max((each.memory.get(kind, 0) for each in self.seen.values()), default=0)


@dataclass(frozen=True, slots=True)
class MeasuredCommand:
    """What a run of the program took."""

    seconds: float
    cpu_seconds: float
    tree: ProcessTree


def run_measured(words: Sequence[object], environment: Mapping[str, str]) -> MeasuredCommand:
    """Run `discodvt WORDS` to its end, looking at its processes."""
    command = [sys.executable, "-m", "discodvt", *map(str, words)]
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ | dict(environment)
    ) as process:
        tree = ProcessTree(process.pid)
        while process.poll() is None:
            tree.look()
            time.sleep(LOOK_SECONDS)
        said = process.stderr.read() if process.stderr is not None else ""
    if process.returncode:
        raise WorkFailed(f"the benched command failed: {said.strip()[-300:]}")
    return MeasuredCommand(time.perf_counter() - started, tree.cpu_seconds, tree)


def _numbers() -> list[int]:
    return [int(path.name) for path in PROC.iterdir() if path.name.isdigit()]


def _read(pid: int) -> _Process | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:  # it has ended
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    values = rest.split()
    return _Process(
        parent=int(values[1]),
        begun=int(values[19]),
        cpu_seconds=(int(values[11]) + int(values[12])) / _TICKS,
        name=name,
    )


def _memory(pid: int) -> dict[str, int]:
    try:
        lines = (PROC / str(pid) / "status").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    found = (line.split() for line in lines if line.startswith(("VmHWM", "RssShmem")))
    return {name.rstrip(":"): 1024 * int(kilobytes) for name, kilobytes, *_ in found}


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in one.keys() | other.keys()}
