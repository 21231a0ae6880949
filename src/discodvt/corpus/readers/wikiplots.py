"""Wikiplots: `titles`, one per line, and `plots`, one sentence per line with `<EOS>` after each plot.

The prompt is the title, the story the sentences joined by a space. No split is given with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from discodvt.corpus.sources import Part, Row
from discodvt.corpus.textfiles import Line, find_file, read_lines
from discodvt.errors import BadRequest

END_OF_PLOT = "<EOS>"


@dataclass(frozen=True, slots=True)
class Wikiplots:
    """The directory with the files `titles` and `plots`, either of them packed or not."""

    directory: Path
    kind = "wikiplots"

    def settings(self) -> dict[str, Any]:
        return {}

    def files(self) -> list[Path]:
        found = [find_file(self.directory, name) for name in ("titles", "plots")]
        present = [path for path in found if path]
        if len(present) < len(found):
            raise BadRequest(
                f"{self.directory}: expected the files `titles` and `plots`; give the directory that has them"
            )
        return present

    def parts(self) -> list[Part]:
        titles, plots = self.files()
        return [Part(label="wikiplots", split=None, size=plots.stat().st_size, read=partial(_read, titles, plots))]


def _read(titles: Path, plots: Path) -> Iterator[Row]:
    heads = read_lines(titles)
    plot_count = 0
    for plot_count, (story, line) in enumerate(_plots(plots), start=1):
        title = next(heads, None)
        if title is None:
            raise _mismatch(titles, plot_count - 1, plots, sum(1 for _ in _plots(plots)))
        yield Row(prompt=title.content.strip(), story=story, place=f"{plots}:{line.number}", position=line.position)
    extra = sum(1 for title in heads if title.content.strip())
    if extra:
        raise _mismatch(titles, plot_count + extra, plots, plot_count)


def _plots(path: Path) -> Iterator[tuple[str, Line]]:
    """Each plot and the line it ends on; the last may do without its `<EOS>`."""
    sentences: list[str] = []
    line = None
    for line in read_lines(path):
        sentence = line.content.strip()
        if sentence == END_OF_PLOT:
            yield " ".join(sentences), line
            sentences = []
        elif sentence:
            sentences.append(sentence)
    if sentences and line:
        yield " ".join(sentences), line


def _mismatch(titles: Path, title_count: int, plots: Path, plot_count: int) -> BadRequest:
    return BadRequest(
        f"{titles}: {title_count} titles, but {plots} has {plot_count} plots; "
        f"each title needs one plot that ends with {END_OF_PLOT}"
    )
