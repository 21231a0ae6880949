"""Work on a corpus in shards: each split cut into runs of rows, done by an executor and kept as a file each.

A stopped run goes on with the shards that are not there yet. Shards do not know of workers: the output is the same
whoever ran them (`discodvt.executors`).
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from discodvt.artefacts import StageDirectory
from discodvt.errors import DiscoError
from discodvt.executors import Place, open_executor, run_shards


class SplitShard(NamedTuple):
    """A run of rows of one split."""

    source: Path
    split: str
    number: int
    first: int
    rows: int

    def __str__(self) -> str:
        return f"{self.source}, stories {self.first:,} to {self.first + self.rows - 1:,}"


def cut_splits(files: Mapping[str, Path], sizes: Mapping[str, int], rows_per_shard: int) -> list[SplitShard]:
    """All shards of the splits, which have so many rows each."""
    return [
        SplitShard(path.absolute(), split, number, first, min(rows_per_shard, sizes[split] - first))
        for split, path in files.items()
        for number, first in enumerate(range(0, sizes[split], rows_per_shard))
    ]


def write_shards(
    stage: StageDirectory,
    shards: Sequence[SplitShard],
    work: Callable[[SplitShard], bytes],
    *,
    name: Callable[[SplitShard], str],
    place: Place,
    progress: Callable[[int, int], None],
) -> None:
    """Run the shards whose files (`name`, FOLDER/FILE in the stage's directory) are missing; `work` gives the content.

    `progress` is called with the rows done and in all. Where the first shard to be done already fails, the stage is
    abandoned: there is nothing to go on from.
    """
    folders = {str(PurePath(name(shard)).parent) for shard in shards}
    kept = {f"{folder}/{path.name}" for folder in folders for path in (stage.directory / folder).glob("*")}
    waiting = [shard for shard in shards if name(shard) not in kept]  # in a store a look at each would be a request
    total = sum(shard.rows for shard in shards)
    done = total - sum(shard.rows for shard in waiting)
    progress(done, total)
    try:
        with open_executor(place) as executor:
            for shard, content in run_shards(executor, work, waiting, name=SplitShard.__str__):
                with stage.writing(name(shard)) as path:
                    path.write_bytes(content)
                done += shard.rows
                progress(done, total)
    except DiscoError:
        if done == 0:
            stage.abandon()
        raise
