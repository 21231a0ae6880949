"""What a reader hands to the prepare stage: a source, made of parts (files), made of rows."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

_OTHER_NAMES = {"training": "train", "validation": "valid", "val": "valid", "dev": "valid"}
_SHARD = re.compile(r"[-_]\d+([-_]of[-_]\d+)?$")


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One prompt and story as the source has them."""

    prompt: str
    story: str
    place: str  # `file:line`, for messages
    position: int = 0  # bytes of the part read so far, for the progress bar
    id: str | None = None  # None: the stage numbers the rows
    group: str | None = None  # rows of one group stay in one split; None: those of one prompt do


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A piece of a source read in one go."""

    label: str  # begins the ids of numbered rows
    split: str | None  # the split it holds; None: to be drawn
    size: int  # bytes; 0 when not known
    read: Callable[[int], Iterator[SourceRow]]  # takes the longest line and story to read, in megabytes


class Source(Protocol):
    """A place stories come from."""

    @property
    def kind(self) -> str: ...

    def settings(self) -> dict[str, Any]:
        """What decides the result besides the files; goes into the manifest."""
        ...

    def files(self) -> Sequence[Path]:
        """The files it reads; their hashes go into the manifest."""
        ...

    def parts(self) -> Sequence[SourcePart]: ...


def split_named(name: str) -> str | None:
    """The split a file or Hub split of this name holds (`dev` is `valid`; shard numbers may follow)."""
    plain = _SHARD.sub("", name.lower())
    split = _OTHER_NAMES.get(plain, plain)
    return split if split in ("train", "valid", "test") else None


def stem(path: Path) -> str:
    """A file's name without `.jsonl.gz` and the like."""
    return Path(path.name.removesuffix(".gz").removesuffix(".zst")).stem
