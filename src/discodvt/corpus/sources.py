"""What a reader hands to the prepare stage: a source, made of parts (files), made of rows."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt and story as the source has them."""

    prompt: str
    story: str
    place: str  # `file:line`, for messages
    position: int = 0  # bytes of the part read so far, for the progress bar
    id: str | None = None  # None: the stage numbers the rows
    group: str | None = None  # rows of one group stay in one split; None: those of one prompt do


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a source read in one go."""

    label: str  # begins the ids of numbered rows
    split: str | None  # the split it holds; None: to be drawn
    size: int  # bytes; 0 when not known
    read: Callable[[], Iterator[Row]]


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

    def parts(self) -> Sequence[Part]: ...
