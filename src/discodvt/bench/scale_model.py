"""What a sharded stage costs on many stories and workers: a simulator fed with measured rates, and a price list.

A run starts its driver, its workers start, shards go to whoever is free, the driver keeps each result (one after the
other), and joins them at the end. `simulate` plays that; beyond so many shards the run is steady and is extended
by its slowest part: the workers together, or the driver. Docs: docs/scale.md.
"""

import heapq
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
class Projection:
    """A stage on many stories, in a cluster that reads and writes an object store."""

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


def project(
    rates: StageRates,
    *,
    stories: int,
    workers: int,
    bytes_a_story: float,
    puts_a_shard: float,
    gets_a_shard: float,
    prices: Prices | None = None,
) -> Projection:
    """Time, storage, requests and money of a run. Workers are paid for as long as the run lasts."""
    prices = prices or Prices()
    run = simulate(rates, stories=stories, workers=workers)
    core_hours = run.seconds * (workers + 1) / 3600
    puts, gets = run.shards * puts_a_shard, run.shards * gets_a_shard
    requests = puts / 1000 * prices.thousand_puts + gets / 1000 * prices.thousand_gets
    gigabytes = stories * bytes_a_story / 1e9
    return Projection(
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
