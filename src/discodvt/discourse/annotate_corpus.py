"""The annotate stage: a corpus in, the same corpus with EDUs and relations out.

Reads a corpus directory, writes an annotated one of the same splits, in shards (`discodvt.corpus.split_shards`). A
worker counts what it annotates and leaves the counts with the shard.
"""

import ctypes
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from io import BytesIO
from pathlib import Path

from discodvt.artefacts import StageDirectory, StageFacts, open_stage
from discodvt.corpus import ANNOTATED_SCHEMA, RowWriter, read_examples, read_rows, split_files, write_rows
from discodvt.corpus.records import notes_of, row_count
from discodvt.corpus.split_shards import SplitShard, cut_splits, write_shards
from discodvt.discourse import parsers
from discodvt.discourse.annotator import Annotator
from discodvt.discourse.languages import load_language
from discodvt.errors import WorkFailed
from discodvt.executors import Place
from discodvt.storage import remove

STORIES_PER_SHARD = 64
SHARDS = "shards"
_ALLOCATOR = {-1: 256 << 20, -3: 32 << 20}  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: malloc.h


@dataclass(slots=True)
class SplitCounts:
    """What an annotated split, or a shard of it, holds."""

    stories: int = 0
    edus: int = 0
    relations: dict[str, int] = field(default_factory=dict)

    def add(self, other: "SplitCounts") -> None:
        self.stories += other.stories
        self.edus += other.edus
        relations = Counter(self.relations) + Counter(other.relations)
        self.relations = dict(sorted(relations.items()))


def annotate_corpus(
    corpus: Path,
    out: Path,
    *,
    parser: str = "bundled",
    language: str = "english",
    workers: int | None = None,
    on: str = "local",
    resources: str = "",
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StageFacts:
    """Annotate every split of `corpus` into `out`; `progress` is called with the stories done and in all.

    The facts are counts for each split, in the order of the corpus.
    """
    place, language = Place(on, workers, resources), load_language(language).name
    # English is not named: what earlier versions annotated is still known for what it is
    config = {"parser": parser} | ({} if language == "english" else {"language": language})
    sources = split_files(corpus)
    sizes = {split: row_count(path) for split, path in sources.items()}
    with open_stage(out, "annotate", config=config, inputs=list(sources.values()), overwrite=overwrite) as stage:
        if stage.complete:
            remove(out / SHARDS)  # of a run killed in its last moment
            known = stage.facts
            return StageFacts({split: known[split] for split in sources}, already_complete=True)
        shards = cut_splits(sources, sizes, STORIES_PER_SHARD)
        work = partial(_work, parser, language, not place.here)
        write_shards(stage, shards, work, name=_file, place=place, progress=progress)
        facts = {
            split: asdict(_join(stage, split, [out / _file(shard) for shard in shards if shard.split == split]))
            for split in sources
        }
        stage.finish(**facts)
        remove(out / SHARDS)
        return StageFacts(facts)


def _file(shard: SplitShard) -> str:
    return f"{SHARDS}/{shard.split}-{shard.number:06d}.parquet"


def _join(stage: StageDirectory, split: str, shards: Iterable[Path]) -> SplitCounts:
    """The file of a split from its shards; returns their counts together."""
    if not (stage.directory / f"{split}.parquet").exists():
        with stage.writing(f"{split}.parquet") as path:
            write_rows(path, (row for shard in shards for row in read_rows(shard, ANNOTATED_SCHEMA)), ANNOTATED_SCHEMA)
    total = SplitCounts()
    for shard in shards:
        counts = notes_of(shard).get("counts")
        if counts is None:
            raise WorkFailed(f"{shard}: made by another version; start over with `overwrite`", parameter="overwrite")
        total.add(SplitCounts(**json.loads(counts)))
    return total


def _work(parser: str, language: str, in_worker: bool, shard: SplitShard) -> bytes:
    """A shard, annotated, as the content of a Parquet file with the counts among its notes."""
    annotator = _open(parser, language, in_worker)
    examples = list(read_examples(shard.source, skip=shard.first, take=shard.rows))
    counts, relations = SplitCounts(stories=len(examples)), Counter[str]()
    buffer = BytesIO()
    with RowWriter(buffer, ANNOTATED_SCHEMA) as writer:
        annotations = annotator.annotate_many(example.story for example in examples)
        for example, annotation in zip(examples, annotations, strict=True):
            counts.edus += len(annotation.edus)
            relations.update(annotation.relations)
            edus = [{"start": start, "end": end} for start, end in annotation.edus]
            writer.write(asdict(example) | {"edus": edus, "relations": annotation.relations})
        counts.relations = dict(relations)
        writer.note("counts", json.dumps(asdict(counts)))
    return buffer.getvalue()


@cache
def _open(parser: str, language: str, in_worker: bool) -> Annotator:
    """One annotator a process, opened by its first shard: what is wrong with it comes back as that shard's error."""
    _keep_freed_memory()
    parsers.only_bundled |= parser == "bundled" and in_worker
    return Annotator(parser, language=language)


def _keep_freed_memory() -> None:
    """Have glibc keep what a batch of the parser frees for the next one: to give it back and be given it again, page by
    page, was a seventh of the CPU time."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # musl has none
            for parameter, size in _ALLOCATOR.items():
                mallopt(parameter, size)
