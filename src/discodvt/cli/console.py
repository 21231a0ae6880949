"""What every command prints with: results to standard output, progress and notes to standard error."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

out = Console(soft_wrap=True, markup=False)  # names may have brackets
err = Console(stderr=True, markup=False)


def progress() -> "Progress":
    """A progress bar on standard error; silent where that is not a terminal."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )


@contextmanager
def counting(called: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar, as what a stage is given to tell how much is done and how much there is in all."""
    with progress() as bar:
        task = bar.add_task(called, total=None, rate="")
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_json(value: Any) -> None:
    """The one thing a command prints to standard output under --json."""
    print_line(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_line(text: str) -> None:
    """JSON to standard output, in UTF-8 whatever the terminal's encoding: that is what JSON is in."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
    sys.stdout.buffer.flush()
