"""Bench of Ray: annotation by two tasks of a cluster of this machine against two local processes, few stories and many.

CPU time is that of all processes, the cluster's own among them: the machine may be in use by others, whom the clock
counts too. Runs take turns. The object store is shared memory of the node, counted in the processes that write and read
it; results below 100 KB, as the shards of short stories are, go past it to the driver.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from discodvt.bench.annotate import corpus_of, stories_of
from discodvt.bench.process_tree import PROC, MeasuredCommand, run_measured
from discodvt.bench.rows import BenchRow, ratio_row, unmeasured_row

FEW, MANY = 5_000, 20_000
LEAST = 130  # stories, however small the scale: two shards and a piece
WORKERS = 2
NODE = "raylet"  # the node's own process
MEBIBYTE = 1 << 20


def bench_ray(corpus: Path | None = None, *, scale: float = 1.0) -> Iterator[BenchRow]:
    """The rows; `corpus` gives the stories (else the sample story in another order), `scale` shrinks their numbers."""
    if not PROC.is_dir():
        yield unmeasured_row("annotate: Ray / local processes", "CPU time is read from /proc", at_most=1.1)
        return
    few, many = (max(LEAST * times, round(size * scale)) for size, times in ((FEW, 1), (MANY, 2)))
    with TemporaryDirectory(prefix="ray") as place:  # short: Ray's sockets are in it
        local, cluster = {}, {}
        for stories in (few, many):
            source = corpus_of(Path(place) / str(stories), islice(stories_of(corpus), stories))
            local[stories] = _annotate(source, place, "local")
            cluster[stories] = _annotate(source, place, "ray")
            promise = {"at_most": 1.1} if stories == many else {}  # to start a cluster takes as long for few stories
            yield _overhead(f"{stories:,} stories", local[stories], cluster[stories], **promise)
        sizes = f"{many:,} / {few:,} stories"
        for what, runs in (("on Ray", cluster), ("local", local)):
            peaks = [runs[size].tree.peak("VmHWM") for size in (few, many)]
            yield _memory(f"annotate: driver's peak memory, {what}, {sizes}", peaks)
        nodes = [cluster[size].tree.peak("VmHWM", name=NODE) for size in (few, many)]
        stores = [cluster[size].tree.largest("RssShmem") / MEBIBYTE for size in (few, many)]
        note = f"; of the object store a process had {stores[1]:.1f} and {stores[0]:.1f} MiB in use"
        yield _memory(f"annotate: peak memory of the node, {sizes}", nodes, note)


def _annotate(corpus: Path, place: str, on: str) -> MeasuredCommand:
    """One run, on Ray in a cluster that is started for it: none that runs here is found in a directory of our own."""
    with TemporaryDirectory(dir=place) as out:
        words = ("annotate", corpus, Path(out) / "out", "--workers", WORKERS, "--on", on)
        environment = {"OMP_NUM_THREADS": "1", "RAY_TMPDIR": place, "RAY_ADDRESS": ""}
        return run_measured(words, environment)


def _overhead(what: str, local: MeasuredCommand, cluster: MeasuredCommand, **promise: float) -> BenchRow:
    note = (
        f"{cluster.cpu_seconds:.1f} and {local.cpu_seconds:.1f} CPU s; "
        f"by the clock {cluster.seconds:.0f} and {local.seconds:.0f} s"
    )
    name = f"annotate: Ray / local processes, {what}, {WORKERS} workers"
    return ratio_row(name, [cluster.cpu_seconds], [local.cpu_seconds], note=note, **promise)


def _memory(name: str, peaks: Sequence[int], note: str = "") -> BenchRow:
    few, many = peaks
    return ratio_row(name, [many], [few], at_most=1.1, note=f"{many / MEBIBYTE:.0f} and {few / MEBIBYTE:.0f} MiB{note}")
