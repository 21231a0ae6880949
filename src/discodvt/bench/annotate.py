"""Bench of the annotate stage: its cost over bare parsing, its workers, its memory.

CPU time is compared where it can be, that of the workers included: it means the same on a machine that others use. How
much sooner two workers are done is a matter of the clock, and not measured beside others.
"""

import os
import random
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from statistics import median
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

from discodvt.artefacts import open_stage
from discodvt.bench.rows import BenchRow, OtherWork, cpu_seconds, interleave, ratio_row, unmeasured_row
from discodvt.corpus import CORPUS_SCHEMA, read_examples, split_files, write_rows
from discodvt.corpus.sentences import split_sentences
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.parsers import SpacyParser, bundled_path
from discodvt.errors import BadRequest, WorkFailed

FEW, MANY = 1_000, 20_000
MOST_OTHERS = 0.1  # cores


def bench_annotate(corpus: Path | None = None, *, rounds: int = 3, scale: float = 1.0) -> Iterator[BenchRow]:
    """The rows; `corpus` gives the text (else shuffled sentences of the sample story), `scale` shrinks the work."""
    stories = stories_of(corpus)
    sample = _until(stories, words=round(40_000 * scale))
    workload = sample + _until(stories, words=round(360_000 * scale))
    yield _overhead(sample, rounds)
    yield from _workers(workload, rounds)
    yield _memory(scale)


def _overhead(texts: list[str], rounds: int) -> BenchRow:
    parser = SpacyParser("bundled", str(bundled_path()))
    annotator = Annotator(parser)

    def bare() -> None:
        with parser.nlp.memory_zone():
            for _ in parser.nlp.pipe(texts):
                pass

    def whole() -> None:
        for _ in annotator.annotate_many(texts):
            pass

    interleave([bare, whole], 1)  # warm up
    alone, all_of_it = interleave([bare, whole], rounds, clock=time.process_time)
    speed = sum(len(text.split()) for text in texts) / min(all_of_it)
    return ratio_row(
        "annotation / bare nlp.pipe", all_of_it, alone, at_most=1.25, note=f"{speed:,.0f} words a CPU second"
    )


def _workers(texts: list[str], rounds: int) -> Iterator[BenchRow]:
    cpu: list[list[float]] = [[], []]
    with TemporaryDirectory() as place:
        corpus = corpus_of(Path(place) / "corpus", texts)

        def run(workers: int) -> None:
            before = cpu_seconds()
            _annotate(corpus, workers=workers)
            cpu[workers - 1].append(cpu_seconds() - before)

        others = OtherWork()
        one, two = interleave([lambda: run(1), lambda: run(2)], rounds)
        busy = others.cores()
    note = f"whole command, {median(cpu[1]):.1f} and {median(cpu[0]):.1f} CPU s"
    yield ratio_row("CPU time of 2 workers / 1", cpu[1], cpu[0], at_most=1.25, note=note)
    name, cores = "speed of 2 workers / 1, by the clock", os.cpu_count() or 1
    if busy > MOST_OTHERS or cores < 2:
        found = f"others used {busy:.1f} of {cores} cores meanwhile"
        yield unmeasured_row(name, found if cores > 1 else "one core", at_least=1.6)
    else:
        yield ratio_row(name, one, two, at_least=1.6, note=f"whole command, {cores} cores")


def _memory(scale: float) -> BenchRow:
    """Peak memory of the command over many short stories against few."""
    rng = random.Random(0)
    sentences = sample_sentences()
    peaks = []
    with TemporaryDirectory() as place:
        for count in (round(FEW * scale), round(MANY * scale)):
            texts = (" ".join(rng.sample(sentences, 2)) for _ in range(count))
            peaks.append(_annotate(corpus_of(Path(place) / str(count), texts), workers=1))
    name = f"peak memory, {MANY * scale:,.0f} / {FEW * scale:,.0f} stories"
    if not all(peaks):
        return unmeasured_row(name, "the memory of a process is read from /proc", at_most=1.1)
    return ratio_row(name, peaks[1:], peaks[:1], at_most=1.1, note=f"{peaks[1] / 2**20:.0f} MiB")


def _annotate(corpus: Path, *, workers: int) -> float:
    """Run the command on a corpus; returns its peak memory in bytes."""
    with TemporaryDirectory() as out:
        words = ["annotate", corpus, Path(out) / "out", "--workers", workers]
        command = [sys.executable, "-m", "discodvt", *map(str, words)]
        peak = 0
        with Popen(command, stdout=DEVNULL, stderr=DEVNULL) as process:
            while process.poll() is None:
                peak = max(peak, _peak_memory(process.pid))
                time.sleep(0.02)
        if process.returncode:
            raise WorkFailed(f"the benched command failed with exit code {process.returncode}: {' '.join(command[1:])}")
        return peak


def _peak_memory(pid: int) -> int:
    """The most memory a process has held so far, in bytes (`wait4` would count what its parent held when it forked)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def corpus_of(directory: Path, texts: Iterable[str]) -> Path:
    with open_stage(directory, "prepare", config={}) as stage:
        with stage.writing("train.parquet") as path:
            rows = ({"id": str(n), "prompt": "", "story": text} for n, text in enumerate(texts))
            write_rows(path, rows, CORPUS_SCHEMA)
        stage.finish()
    return directory


def stories_of(corpus: Path | None) -> Iterator[str]:
    if corpus is not None:
        paths = split_files(corpus).values()
        yield from (story.story for path in paths for story in read_examples(path))
        raise BadRequest(f"{corpus}: too few stories for this bench; lower `scale`", parameter="scale")
    rng = random.Random(0)
    sentences = sample_sentences()
    while True:
        yield " ".join(rng.sample(sentences, len(sentences)))


def _until(stories: Iterator[str], *, words: int) -> list[str]:
    taken: list[str] = []
    while words > 0:
        taken.append(next(stories))
        words -= len(taken[-1].split())
    return taken


def sample_sentences() -> list[str]:
    text = (files("discodvt") / "assets" / "sample_story.txt").read_text(encoding="utf-8")
    return [text[start:end].strip() for start, end in split_sentences(text)]
