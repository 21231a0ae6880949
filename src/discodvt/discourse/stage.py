"""The annotate stage: a corpus in, the same corpus with EDUs and relations out.

Reads a corpus directory, writes an annotated one of the same splits. The work is cut into shards of a fixed number of
stories, done by any number of worker processes; each shard is kept when done, so a stopped run goes on where it was.
Shards do not know of workers: the output is the same for any number of them.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from io import BytesIO
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from shutil import rmtree
from typing import Any

from discodvt.artefacts import StageDirectory, open_stage
from discodvt.corpus import ANNOTATED_SCHEMA, read_examples, read_rows, row_count, split_files, write_rows
from discodvt.discourse.annotator import Annotator
from discodvt.errors import DiscoError, WorkFailed

STORIES_PER_SHARD = 64
SHARDS = "shards"
Progress = Callable[[int, int], None]  # stories done, stories in all


@dataclass(frozen=True, slots=True)
class _Shard:
    """A run of stories of one split."""

    source: Path
    split: str
    number: int

    @property
    def first(self) -> int:
        return self.number * STORIES_PER_SHARD

    @property
    def name(self) -> str:
        return f"{SHARDS}/{self.split}-{self.number:06d}.parquet"


@dataclass(frozen=True, slots=True)
class Result:
    """The facts of the manifest for each split, in the order of the corpus, and whether they were there already."""

    facts: dict[str, Any]
    already_complete: bool = False


def annotate_corpus(
    corpus: Path,
    out: Path,
    *,
    parser: str = "bundled",
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> Result:
    """Annotate every split of `corpus` into `out`."""
    sources = split_files(corpus)
    counts = {split: row_count(path) for split, path in sources.items()}
    total = sum(counts.values())
    with open_stage(
        out, "annotate", config={"parser": parser}, inputs=list(sources.values()), overwrite=overwrite
    ) as stage:
        if stage.complete:
            known = stage.facts
            return Result({split: known[split] for split in sources}, already_complete=True)
        shards = [
            _Shard(path, split, number)
            for split, path in sources.items()
            if not (out / f"{split}.parquet").exists()
            for number in range(-(-counts[split] // STORIES_PER_SHARD))
        ]
        waiting = [shard for shard in shards if not (out / shard.name).exists()]
        done = total - sum(min(STORIES_PER_SHARD, counts[shard.split] - shard.first) for shard in waiting)
        progress(done, total)
        try:
            for shard, (stories, content) in _annotated(waiting, parser, workers):
                with stage.writing(shard.name) as path:
                    path.write_bytes(content)
                done += stories
                progress(done, total)
        except DiscoError:
            if done == 0:  # else there are shards to go on from
                stage.abandon()
            raise
        for split in sources:
            if not (out / f"{split}.parquet").exists():
                _join(stage, split, [out / shard.name for shard in shards if shard.split == split])
        facts = {split: asdict(summarise(out / f"{split}.parquet")) for split in sources}
        rmtree(out / SHARDS, ignore_errors=True)
        stage.finish(**facts)
        return Result(facts)


@dataclass(frozen=True, slots=True)
class Summary:
    """What an annotated split holds."""

    stories: int
    edus: int
    relations: dict[str, int]


def summarise(path: Path) -> Summary:
    """Count the EDUs and relations of an annotated split."""
    stories = edus = 0
    relations: Counter[str] = Counter()
    for row in read_rows(path, ANNOTATED_SCHEMA):
        stories += 1
        edus += len(row["edus"])
        relations.update(row["relations"])
    return Summary(stories, edus, dict(sorted(relations.items())))


def _join(stage: StageDirectory, split: str, parts: Iterable[Path]) -> None:
    with stage.writing(f"{split}.parquet") as path:
        write_rows(path, (row for part in parts for row in read_rows(part, ANNOTATED_SCHEMA)), ANNOTATED_SCHEMA)


def _annotated(shards: list[_Shard], parser: str, workers: int) -> Iterator[tuple[_Shard, tuple[int, bytes]]]:
    """Each shard with its number of stories and its Parquet content, in the order they are done."""
    if not shards:
        return
    if workers == 1:
        annotator = Annotator(parser)
        for shard in shards:
            yield shard, _annotate_shard(shard, annotator)
        return
    queue = iter(shards)
    with _one_thread_each(), _pool(workers) as pool:
        running: dict[Future[tuple[int, bytes]], _Shard] = {}
        try:
            while True:
                for shard in islice(queue, 2 * workers - len(running)):
                    running[pool.submit(_work, shard, parser)] = shard
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    shard = running.pop(future)
                    yield shard, future.result()
        except BrokenProcessPool:
            raise WorkFailed(
                "a worker process died (out of memory?); run the same command again with fewer workers"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _annotate_shard(shard: _Shard, annotator: Annotator) -> tuple[int, bytes]:
    stories = list(read_examples(shard.source, skip=shard.first, take=STORIES_PER_SHARD))
    rows = (
        {
            "id": story.id,
            "prompt": story.prompt,
            "story": story.story,
            "edus": [{"start": start, "end": end} for start, end in annotation.edus],
            "relations": annotation.relations,
        }
        for story, annotation in zip(stories, annotator.annotate_many(s.story for s in stories), strict=True)
    )
    buffer = BytesIO()
    write_rows(buffer, rows, ANNOTATED_SCHEMA)
    return len(stories), buffer.getvalue()


# --- worker processes ---


def _pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    """End this worker when the run that started it is gone, however it went."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _work(shard: _Shard, parser: str) -> tuple[int, bytes]:
    return _annotate_shard(shard, _open(parser))


@cache
def _open(parser: str) -> Annotator:
    """One annotator a worker, opened by its first shard: what is wrong with it comes back as that shard's error."""
    return Annotator(parser)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Worker processes share the cores between them: one thread of linear algebra each."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
