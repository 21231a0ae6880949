"""Books cut into contiguous segments with an empty prompt: what the warm start is trained on.

A book is a `.txt` file, or a row of a `.jsonl` file (column `story` unless another is named), packed or not. A segment
has at least so many words, or subwords of a tokenizer, and ends with a word; no segment crosses a book, and what is
left at the end of one and too short is not used. All segments of a book go to one split.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from discodvt.corpus.columns import text_of
from discodvt.corpus.readers.formats import read_jsonl
from discodvt.corpus.segments import Segmenter, load_tokenizer, tokenizer_files
from discodvt.corpus.sources import Part, Row
from discodvt.corpus.textfiles import CODECS, read_lines
from discodvt.errors import BadRequest

SUFFIXES = tuple(kind + packed for kind in (".txt", ".jsonl") for packed in ("", *CODECS))
DEFAULT_WORDS = 400
DEFAULT_SUBWORDS = 512


@dataclass(frozen=True, slots=True)
class Books:
    """A file or a directory tree of them; `tokenizer` is a directory with a tokenizer, None counts words."""

    path: Path
    segment_length: int | None = None
    tokenizer: Path | None = None
    story_column: str = "story"
    kind = "books"

    @property
    def length(self) -> int:
        return self.segment_length or (DEFAULT_SUBWORDS if self.tokenizer else DEFAULT_WORDS)

    def settings(self) -> dict[str, Any]:
        unit = "subwords" if self.tokenizer else "words"
        return {"segment_length": self.length, "unit": unit, "column": self.story_column}

    def files(self) -> list[Path]:
        return self._books() + (tokenizer_files(self.tokenizer) if self.tokenizer else [])

    def parts(self) -> list[Part]:
        segmenter = Segmenter(self.length, load_tokenizer(self.tokenizer) if self.tokenizer else None)
        return [
            Part(
                label=self._label(path), split=None, size=path.stat().st_size, read=partial(self._read, path, segmenter)
            )
            for path in self._books()
        ]

    def _books(self) -> list[Path]:
        if not self.path.exists():
            raise BadRequest(f"{self.path}: no such file or directory; check the path")
        if self.path.is_file():
            found = [self.path]
        else:
            found = sorted(path for path in self.path.rglob("*") if path.is_file() and path.name.endswith(SUFFIXES))
        if not found or not found[0].name.endswith(SUFFIXES):
            raise BadRequest(f"{self.path}: no .txt or .jsonl (.gz, .zst) book; give a file or directory of these")
        labels: dict[str, Path] = {}
        for path in found:
            if (other := labels.setdefault(self._label(path), path)) != path:
                raise BadRequest(f"{path}: {other.name} stands beside it; keep one of the two")
        return found

    def _label(self, path: Path) -> str:
        """The name of a file as ids begin with it: its path in the directory, without suffixes."""
        name = path.name if path == self.path else path.relative_to(self.path).as_posix()
        return name.removesuffix(next(suffix for suffix in reversed(SUFFIXES) if name.endswith(suffix)))

    def _read(self, path: Path, segmenter: Segmenter) -> Iterator[Row]:
        label = self._label(path)
        if ".jsonl" in path.suffixes[-2:]:
            for number, record in enumerate(read_jsonl(path, self._select), start=1):
                pieces = [(text_of(record, self.story_column), record.place, record.position)]
                yield from _rows(segmenter, pieces, f"{label}-{number}")
        else:
            lines = ((line.content + "\n", f"{path}:{line.number}", line.position) for line in read_lines(path))
            yield from _rows(segmenter, lines, label)

    def _select(self, present: Iterable[str], place: str) -> list[str]:
        if self.story_column not in present:
            there = ", ".join(present)
            raise BadRequest(
                f"{place}: no column `{self.story_column}`; it has {there}; name one with `story_column`",
                parameter="story_column",
            )
        return [self.story_column]


def _rows(segmenter: Segmenter, pieces: Iterable[tuple[str, str, int]], book: str) -> Iterator[Row]:
    """The segments of one book; a piece is a text with its place and position."""
    place, position = "", 0

    def texts() -> Iterator[str]:
        nonlocal place, position
        for text, place, position in pieces:  # noqa: B007 - the last ones are those of the segment
            yield text

    for number, segment in enumerate(segmenter.segments(texts()), start=1):
        yield Row(prompt="", story=segment, place=place, position=position, id=f"{book}-{number}", group=book)
