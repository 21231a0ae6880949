"""Steps of a grid on a Ray cluster (`grid --on ray`): each is `discodvt` in a process of its own, on some node.

Nodes see the files of the grid under the same paths. A step that is lost with its node is started again, as a grid that
was killed does it: it resumes.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from discodvt.errors import DiscoError
from discodvt.executors import Place
from discodvt.executors.local import end_with
from discodvt.executors.ray_cluster import RayCluster
from discodvt.executors.shards import TRIES, parse_resources

ENTRY = "import sys; from discodvt.experiments.grid_cluster import main; main(*sys.argv[1:])"


class ClusterStep:
    """A step at work somewhere, to be waited for as for a process; code 1 and a reason where it was lost for good."""

    def __init__(self, work: "partial[int]") -> None:
        self.work, self.tries = work, 0
        self.exitcode: int | None = None
        self.reason = ""


class ClusterSteps:
    """A connection to a cluster that runs steps."""

    def __init__(self, place: Place) -> None:
        address = place.on.partition(":")[2] or None
        self._cluster = RayCluster(address, workers=None, resources=parse_resources(place.resources))
        self._running: dict[int, ClusterStep] = {}
        self._tickets = 0

    def start(self, command: Sequence[str], log: Path, threads: int) -> ClusterStep:
        step = ClusterStep(partial(run_on_node, tuple(command), str(log.absolute()), threads))
        self._begin(step)
        return step

    def _begin(self, step: ClusterStep) -> None:
        self._tickets += 1
        step.tries += 1
        self._running[self._tickets] = step
        self._cluster.start(self._tickets, step.work)

    def wait(self, seconds: float) -> None:
        """Until a step has ended, for so long at most."""
        for ticket, outcome in self._cluster.finished(seconds):
            step = self._running.pop(ticket)
            if isinstance(outcome, DiscoError):  # would be the same for every step: versions of a node
                raise outcome
            if not isinstance(outcome, Exception):
                step.exitcode = outcome
            elif step.tries < TRIES:
                self._begin(step)
            else:
                step.exitcode, step.reason = 1, f"lost {TRIES} times ({type(outcome).__name__})"

    def close(self) -> None:
        self._cluster.close()


def run_on_node(command: tuple[str, ...], log: str, threads: int) -> int:
    """On a node: the exit code of `discodvt WORDS`, whose output goes to a file."""
    words = [sys.executable, "-c", ENTRY, str(os.getpid()), log, str(threads), *command]
    return subprocess.run(words, check=False).returncode


def main(parent: str, log: str, threads: str, *command: str) -> None:
    """In the process of a step, which ends with the task that started it."""
    from discodvt.experiments.grid_run import run_command

    end_with(int(parent))
    run_command(command, Path(log), int(threads))
