"""What a sharded stage costs on many stories and workers: a simulator fed with measured rates, and a price list.

A run starts its driver, its workers start, shards go to whoever is free, the driver keeps each result (one after the
other), and joins them at the end. `simulate` plays that; beyond so many shards the run is steady and is extended
by its slowest part: the workers together, or the driver. Docs: docs/scale.md.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace

PLAYED = 50_000  # shards played one by one


@dataclass(frozen=True, slots=True)
class StageRates:
    """CPU seconds of one stage, on one core of the machine they were measured on."""

    driver_start: float  # until it can work
    worker_start: float  # a further process, until it can
    story: float  # a worker's, for each story
    shard: float  # the driver's, for each shard it keeps
    join: float  # the driver's, for each story, at the end
    stories_per_shard: int = 64

    def longer(self, times: float) -> "StageRates":
        """The same stage on stories so many times as long."""
        return replace(self, story=self.story * times, join=self.join * times)


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What a run takes: seconds on idle cores, CPU seconds of all processes, and how long the driver is at work."""

    seconds: float
    cpu_seconds: float
    driver_seconds: float
    shards: int

    @property
    def bound_by(self) -> str:
        return "driver" if self.driver_seconds > 0.9 * self.seconds else "workers"


def simulate(rates: StageRates, *, stories: int, workers: int, in_driver: bool = False) -> SimulatedRun:
    """Play a run of `workers` processes; `in_driver`: the driver itself does the work, shard by shard."""
    shards = -(-stories // rates.stories_per_shard)
    played = min(shards, PLAYED)
    share = stories / max(shards, 1)  # stories of a shard, the last one's rest spread over all
    work = rates.story * share
    if in_driver:
        seconds = rates.driver_start + shards * (work + rates.shard) + stories * rates.join
        return SimulatedRun(seconds, seconds, seconds, shards)
    first = rates.driver_start + rates.worker_start
    free = [first] * min(workers, played)  # when each worker is idle again
    driver, ends = rates.driver_start, []
    for _ in range(played):
        end = heapq.heappop(free) + work
        driver = max(driver, end) + rates.shard
        heapq.heappush(free, driver)  # it is handed the next shard when the driver has kept this one
        ends.append(driver)
    rest = shards - played
    seconds = driver + rest * max(work / workers, rates.shard) + stories * rates.join
    driver_seconds = rates.driver_start + shards * rates.shard + stories * rates.join
    cpu = driver_seconds + len(free) * rates.worker_start + shards * work
    return SimulatedRun(seconds, cpu, driver_seconds, shards)


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars; assumptions, stated with their date in docs/scale.md."""

    core_hour: float = 0.045
    gigabyte_month: float = 0.023
    thousand_puts: float = 0.005
    thousand_gets: float = 0.0004


@dataclass(frozen=True, slots=True)
class MeasuredStage:
    """A stage as it was measured (docs/scale.md says on what): rates, and what it writes and asks of a store."""

    rates: StageRates
    bytes_a_story: float
    puts_a_shard: float
    gets_a_shard: float


MEASURED = {
    "annotate": MeasuredStage(
        StageRates(driver_start=4.8, worker_start=2.3, story=0.0732, shard=0.03, join=0.00012),
        bytes_a_story=1701,
        puts_a_shard=3,
        gets_a_shard=16,
    ),
    "generate": MeasuredStage(  # what the driver does, and requests, taken to be those of annotate
        StageRates(driver_start=2.0, worker_start=2.6, story=0.179, shard=0.03, join=0.00012),
        bytes_a_story=1256,
        puts_a_shard=3,
        gets_a_shard=16,
    ),
}


@dataclass(frozen=True, slots=True)
class Projection:
    """A stage on many stories, in a cluster that reads and writes an object store."""

    stage: str
    stories: int
    workers: int
    hours: float
    core_hours: float
    gigabytes: float  # written
    puts: float
    gets: float
    dollars: float  # cores and requests
    dollars_a_month: float  # what is written, kept
    bound_by: str


def project(stage: str, *, stories: int, workers: int, prices: Prices | None = None) -> Projection:
    """Time, storage, requests and money of a run. Workers are paid for as long as the run lasts."""
    measured, prices = MEASURED[stage], prices or Prices()
    run = simulate(measured.rates, stories=stories, workers=workers)
    core_hours = run.seconds * (workers + 1) / 3600
    puts, gets = run.shards * measured.puts_a_shard, run.shards * measured.gets_a_shard
    requests = puts / 1000 * prices.thousand_puts + gets / 1000 * prices.thousand_gets
    gigabytes = stories * measured.bytes_a_story / 1e9
    return Projection(
        stage=stage,
        stories=stories,
        workers=workers,
        hours=run.seconds / 3600,
        core_hours=core_hours,
        gigabytes=gigabytes,
        puts=puts,
        gets=gets,
        dollars=core_hours * prices.core_hour + requests,
        dollars_a_month=gigabytes * prices.gigabyte_month,
        bound_by=run.bound_by,
    )


def projection_table(projections: Sequence[Projection]) -> list[list[str]]:
    """A heading and a row for each, as docs/scale.md has them."""
    heading = [
        "stage",
        "stories",
        "workers",
        "hours",
        "core hours",
        "GB written",
        "requests",
        "$",
        "$ a month",
        "bound by",
    ]
    return [heading] + [
        [
            each.stage, f"{each.stories:.0e}".replace("e+0", "e"), f"{each.workers:,}", f"{each.hours:,.1f}",
            f"{each.core_hours:,.0f}", f"{each.gigabytes:,.0f}", f"{each.puts + each.gets:.1e}".replace("e+0", "e"),
            f"{each.dollars:,.0f}", f"{each.dollars_a_month:,.0f}", each.bound_by,
        ]
        for each in projections
    ]  # fmt: skip
