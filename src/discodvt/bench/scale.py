"""Bench of growth: annotation and writing from few stories to many, with one worker and two, beside the simulator.

Rates are fitted to the two smallest sizes with one process and to one run of two workers; every other run is then
predicted (`discodvt.bench.scale_model`). CPU seconds of the whole command, workers included, are compared: they mean
the same on a machine that others use. Sizes take turns, for no machine is as fast in one minute as in the next.
Stories are short, a sentence to annotate, a few subwords to write: what does not grow with their number by itself
(shards, joining, memory) weighs the more.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from discodvt.bench.annotate import corpus_of, sample_sentences
from discodvt.bench.rows import BenchRow, ratio_row
from discodvt.bench.scale_model import StageRates, simulate
from discodvt.discourse.annotate_corpus import STORIES_PER_SHARD
from discodvt.errors import WorkFailed

SIZES = (1_000, 5_000, 20_000)
LEAST = (32, 96, 192)  # however small the scale
ROUNDS = {"annotate": 3, "generate": 1}  # a round of writing takes five minutes
SENTENCES = 1  # of a story
MAX_TOKENS, MAX_CODES = 4, 1  # of a written story
STAGES = ("annotate", "generate")

Measure = Callable[[int, int], float]  # (stories, workers) -> CPU seconds


def bench_scale(model: str | None = None, *, scale: float = 1.0, stages: Sequence[str] = STAGES) -> Iterator[BenchRow]:
    """The rows, as they are measured; `scale` shrinks the numbers of stories."""
    sizes = [max(least, round(size * scale)) for size, least in zip(SIZES, LEAST, strict=True)]
    for stage in stages:
        with TemporaryDirectory() as place:
            measure = _Annotating(Path(place), sizes) if stage == "annotate" else _Writing(Path(place), model, sizes)
            yield from _rows(stage, sizes, measure)


def _rows(stage: str, sizes: Sequence[int], measure: Measure) -> Iterator[BenchRow]:
    few, more, many = sizes
    measure(more, 1)  # the first run finds its files on the disk and may compile steps; all others find both done
    rounds = [{size: measure(size, 1) for size in sizes} for _ in range(ROUNDS[stage])]
    one = {size: median(each[size] for each in rounds) for size in sizes}
    rates = fit({size: one[size] for size in (few, more)}, few, measure(few, 2))
    notes = (
        f"{1000 * rates.story:.2f} ms a story, {rates.driver_start:.1f} s to start, {rates.worker_start:.1f} a worker"
    )
    late = [(each[many] - each[more]) / (many - more) for each in rounds]
    early = [(each[more] - each[few]) / (more - few) for each in rounds]
    name = f"{stage}: a further story up to {many:,} / up to {more:,}"
    yield ratio_row(name, late, early, within=0.1, note=notes)
    for size, workers in ((many, 1), (many, 2)):
        measured = one[size] if workers == 1 else measure(size, workers)
        said = simulate(rates, stories=size, workers=workers, in_driver=workers == 1).cpu_seconds
        name = f"{stage}: simulated / measured, {size:,} stories, {workers} worker{'s' if workers > 1 else ''}"
        yield ratio_row(name, [said], [measured], within=0.2, note=f"{measured:.1f} CPU s")


def fit(one: dict[int, float], few: int, two_workers: float) -> StageRates:
    """Rates from CPU seconds: one process on two sizes, two workers on the smaller. What the driver does with results
    is in the story's rate: CPU time cannot tell them apart. A worker without a shard is not started."""
    (small, low), (large, high) = sorted(one.items())
    story = (high - low) / (large - small)
    begin = low - small * story
    worker = max(0.0, two_workers - few * story - begin) / min(2, -(-few // STORIES_PER_SHARD))
    return StageRates(driver_start=begin, worker_start=worker, story=story, shard=0.0, join=0.0)


class _Annotating:
    """`discodvt annotate` over corpora of short stories."""

    def __init__(self, place: Path, sizes: Sequence[int]) -> None:
        self.place = place
        rng, sentences = random.Random(0), sample_sentences()
        for size in sizes:
            corpus_of(place / str(size), (" ".join(rng.sample(sentences, SENTENCES)) for _ in range(size)))

    def __call__(self, stories: int, workers: int) -> float:
        return cpu_seconds(self.place, "annotate", self.place / str(stories), "OUT", "--workers", workers)


class _Writing:
    """`discodvt generate` to as many prompts."""

    def __init__(self, place: Path, model: str | None, sizes: Sequence[int]) -> None:
        self.place = place
        self.model = ("--model", model) if model else ()
        for size in sizes:
            lines = (f"One day number {number} began.\n" for number in range(size))
            (place / f"{size}.txt").write_text("".join(lines), encoding="utf-8")

    def __call__(self, stories: int, workers: int) -> float:
        short = ("--max-tokens", MAX_TOKENS, "--min-codes", 1, "--max-codes", MAX_CODES)
        asked = ("--prompts", self.place / f"{stories}.txt", *short, "--output", "OUT")
        return cpu_seconds(self.place, "generate", *self.model, *asked, "--workers", workers)


def cpu_seconds(place: Path, *words: object) -> float:
    """CPU seconds of a command and its workers; `OUT` among its words is a new path."""
    with TemporaryDirectory(dir=place) as out:
        given = [str(Path(out) / "out.jsonl") if word == "OUT" else str(word) for word in words]
        before = os.times()
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "discodvt", *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        after = os.times()
    if done.returncode:
        raise WorkFailed(f"the benched command failed: {done.stderr.strip()[-300:]}")
    return after.children_user + after.children_system - before.children_user - before.children_system
