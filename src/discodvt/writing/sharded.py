"""Stories in shards, for an executor: runs of consecutive stories, written by any worker and joined in order.

A finished shard is kept beside the output, in `NAME.shards`, until all before it are there; then it is appended to the
file and removed. So the file is always a beginning of the whole, as it is for one writer, and nobody holds more than a
few shards in memory. The name of a shard has the hash of the request: what another request left is never taken.
"""

import hashlib
import json
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from discodvt.executors import Place, open_executor, run_shards
from discodvt.resumable import replacing
from discodvt.storage import locate, remove
from discodvt.writing.generate_stage import StoriesFile, in_order
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.story import Request, Story

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter

STORIES_PER_SHARD = 64


@dataclass(frozen=True, slots=True)
class WriterSource:
    """How a worker opens the writer: as it was opened here."""

    model: str | None
    int8: bool
    engine: str
    batch_size: int

    @classmethod
    def of(cls, model: str | None, *, int8: bool, engine: str, batch_size: int) -> "WriterSource":
        directory = locate(model).expanduser() if model is not None else None
        if directory is not None and directory.is_dir():
            model = str(directory.absolute())  # workers elsewhere have another current directory
        return cls(model, int8, engine, batch_size)


@dataclass(frozen=True, slots=True)
class _Shard:
    first: int
    requests: tuple[Request, ...]

    def __str__(self) -> str:
        return f"stories {self.requests[0].id} to {self.requests[-1].id}"


def write_in_shards(
    file: StoriesFile, requests: Sequence[Request], params: SamplingParams, *, source: WriterSource, place: Place
) -> Iterator[Story]:
    """The stories the file does not hold yet, in order, as they are appended to it."""
    kept = file.output.path.with_name(file.output.path.name + ".shards")
    digest = hashlib.sha256(json.dumps(file.output.request, sort_keys=True).encode()).hexdigest()[:16]
    shards = [
        _Shard(first, tuple(requests[first : first + STORIES_PER_SHARD]))
        for first in range(0, len(requests), STORIES_PER_SHARD)
    ]
    paths = {shard.first: kept / f"{digest}-{shard.first:09d}.jsonl" for shard in shards}
    todo = [shard for shard in shards if shard.first + len(shard.requests) > file.held]
    joins = 0  # shards of these that the file holds

    def joined() -> Iterator[Story]:
        """Append what is next in order; a line the file already has was appended before a kill."""
        nonlocal joins
        while joins < len(todo) and (path := paths[todo[joins].first]).exists():
            with path.open(encoding="utf-8", newline="\n") as lines:
                for number, line in enumerate(lines, start=todo[joins].first):
                    if number >= file.held:
                        file.output.append(line.encode())
                        yield Story.from_line(line, f"{path}, story {number}")
            path.unlink()
            joins += 1

    kept.mkdir(exist_ok=True)
    yield from joined()
    waiting = [shard for shard in todo[joins:] if not paths[shard.first].exists()]
    with open_executor(place) as executor:
        work = partial(_write_shard, source, params)
        for shard, (content, warned) in run_shards(executor, work, waiting, name=str):
            with replacing(paths[shard.first]) as path:
                path.write_bytes(content)
            for message in warned:
                warnings.warn(message, stacklevel=2)
            yield from joined()
    remove(kept)


def _write_shard(source: WriterSource, params: SamplingParams, shard: _Shard) -> tuple[bytes, list[str]]:
    """The lines of a shard, and what there was to warn of."""
    writer = _open(source.model, source.int8, source.engine)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        stories = writer.write_many(shard.requests, params, batch_size=source.batch_size)
        content = b"".join(story.as_line().encode() for story in in_order(stories, shard.first))
    return content, [str(warning.message) for warning in caught]


@cache
def _open(model: str | None, int8: bool, engine: str) -> "StoryWriter":
    """One writer a process."""
    from discodvt.writing.writer import StoryWriter

    return StoryWriter.from_pretrained(model, int8=int8, engine=engine)
