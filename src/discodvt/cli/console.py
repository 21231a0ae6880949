"""What every command prints with: results to standard output, progress and notes to standard error."""

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress

out = Console(soft_wrap=True)
err = Console(stderr=True)


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


def print_json(value: Any) -> None:
    """The one thing a command prints to standard output under --json."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
