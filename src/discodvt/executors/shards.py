"""Shards and who runs them. A stage cuts its work into shards with fixed contents and a function for one of them;
an executor runs that function somewhere, and here is what happens when it does not come back.

A shard that fails, or whose worker is lost, is run again; after three tries it is named and the rest goes on. An error
of the user (`BadRequest`, `WorkFailed`) ends the run at once: it would be the same for every shard. Results come in the
order they are done, each once; which executor ran a shard cannot be told from its result.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from discodvt.errors import BadRequest, DiscoError, WorkFailed

TRIES = 3
MOST_NAMED = 5  # shards named in an error
_SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}

Shard = TypeVar("Shard")
Result = TypeVar("Result")


class Executor(Protocol):
    """Runs functions without arguments; each is known by its ticket until it is finished."""

    @property
    def slots(self) -> int:
        """How many to have under way."""
        ...

    def start(self, ticket: int, task: Callable[[], Any]) -> None: ...

    def finished(self) -> list[tuple[int, Any]]:
        """Wait for at least one: tickets with what the function returned, or the exception in its place."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where shards are run, as a user says it: `local`, `ray` or `ray:ADDRESS`; `workers` at a time.

    Without `workers` there is one locally, and as many as a Ray cluster has room for. `resources` of a task on Ray:
    `cpus=1,gpus=0.5,memory=2GB`, and any the cluster has by name.
    """

    on: str = "local"
    workers: int | None = None
    resources: str = ""

    def __post_init__(self) -> None:
        if self.on not in ("local", "ray") and not self.on.startswith("ray:"):
            raise BadRequest(f"`on` {self.on!r}: expected local, ray or ray:ADDRESS", parameter="on")
        if self.workers is not None and self.workers < 1:
            raise BadRequest(f"`workers` {self.workers}: expected 1 or more", parameter="workers")
        if self.on == "local" and self.resources:
            raise BadRequest("`resources`: for tasks of a Ray cluster; give `on` ray", parameter=("resources", "on"))

    @property
    def here(self) -> bool:
        """In this process, one after the other."""
        return self.on == "local" and self.workers in (None, 1)


@contextmanager
def open_executor(place: Place) -> Iterator[Executor]:
    """The executor for a place; it ends with the block, and with it what was under way."""
    executor: Executor
    if place.on != "local":
        from discodvt.executors.ray_cluster import RayCluster

        executor = RayCluster(
            place.on.partition(":")[2] or None, workers=place.workers, resources=parse_resources(place.resources)
        )
    else:
        from discodvt.executors.local import LocalProcesses, ThisProcess

        executor = ThisProcess() if place.here else LocalProcesses(place.workers or 1)
    try:
        yield executor
    finally:
        executor.close()


def run_shards(
    executor: Executor,
    work: Callable[[Shard], Result],
    shards: Iterable[Shard],
    *,
    name: Callable[[Shard], str],
    kept: bool = True,
) -> Iterator[tuple[Shard, Result]]:
    """Each shard with its result, in the order they are done; `work` and shards go to other processes by pickle.

    Shards are taken from the iterable as there is room: it may be long. `kept`: the caller keeps what is done for the
    next run.
    """
    run = _Run(executor, work, enumerate(shards))
    failed: dict[str, Exception] = {}
    while run.fill():
        for ticket, outcome in executor.finished():
            shard = run.under_way.pop(ticket)
            if isinstance(outcome, DiscoError):
                raise outcome
            if not isinstance(outcome, Exception):
                run.tries.pop(ticket, None)
                yield shard, outcome
            elif run.tries[ticket] < TRIES:
                run.again.append((ticket, shard))
            else:
                failed[name(shard)] = outcome
    if failed:
        raise WorkFailed(_failure(failed, kept)) from next(iter(failed.values()))


@dataclass(slots=True)
class _Run:
    """What is under way, and what comes next."""

    executor: Executor
    work: Callable[[Any], Any]
    fresh: Iterator[tuple[int, Any]]
    under_way: dict[int, Any] = field(default_factory=dict)
    again: deque[tuple[int, Any]] = field(default_factory=deque)
    tries: dict[int, int] = field(default_factory=dict)

    def fill(self) -> bool:
        """Start shards while there is room; False when nothing is left to wait for."""
        while len(self.under_way) < self.executor.slots:
            following = self.again.popleft() if self.again else next(self.fresh, None)
            if following is None:
                break
            ticket, shard = following
            self.under_way[ticket] = shard
            self.tries[ticket] = self.tries.get(ticket, 0) + 1
            self.executor.start(ticket, partial(self.work, shard))
        return bool(self.under_way)


def _failure(failed: Mapping[str, Exception], kept: bool) -> str:
    shown = [f"{name} ({_reason(error)})" for name, error in list(failed.items())[:MOST_NAMED]]
    more = f" and {len(failed) - len(shown)} more" if len(failed) > len(shown) else ""
    count = "1 shard" if len(failed) == 1 else f"{len(failed)} shards"
    named = "; ".join(shown) + more
    rest = ". The rest is done; the same command tries only what failed" if kept else ""
    return f"{count} failed {TRIES} times: {named}{rest}"


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__


def parse_resources(text: str) -> dict[str, float]:
    """`cpus=2,gpus=0.5,memory=2GB` as numbers by name."""
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*(KB|MB|GB|)\s*", part)
        if match is None or (match[3] and match[1] != "memory"):
            raise BadRequest(
                f"`resources` {part!r}: expected such as cpus=1,gpus=0.5,memory=2GB", parameter="resources"
            )
        found[match[1]] = float(match[2]) * _SIZES[match[3]]
    return found
