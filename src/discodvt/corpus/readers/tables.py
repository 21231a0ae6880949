"""JSONL, CSV and Parquet files with a column for the story and one for the prompt (or none: its first sentence).

Files named `train`, `valid` (`validation`, `val`, `dev`) and `test` are those splits: in a directory, or when two or
more such files are given. Other files are read one after the other and split by the stage.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discodvt.corpus.columns import Columns
from discodvt.corpus.readers.formats import FORMATS
from discodvt.corpus.sources import Part, Row
from discodvt.corpus.splits import split_named, stem
from discodvt.corpus.textfiles import CODECS
from discodvt.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Table:
    """Files (or one directory) of one format; `given` names the files of each split instead."""

    kind: str
    paths: Sequence[Path] = ()
    columns: Columns = field(default_factory=Columns)
    given: Mapping[str, Path] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        splits = {path.name: split for path, split in self._files() if split}
        return {"columns": self.columns.settings(), "given_splits": splits}

    def files(self) -> list[Path]:
        return [path for path, _ in self._files()]

    def parts(self) -> list[Part]:
        return [
            Part(label=split or stem(path), split=split, size=path.stat().st_size, read=partial(self._read, path))
            for path, split in self._files()
        ]

    def _read(self, path: Path) -> Iterator[Row]:
        return map(self.columns.row, FORMATS[self.kind](path, self.columns.needed))

    def _files(self) -> list[tuple[Path, str | None]]:
        """The files, each with the split it holds."""
        if bool(self.given) == bool(self.paths):
            raise BadRequest(f"{self.kind}: expected either paths, or a file for each split; give one of the two")
        if self.given:
            return [(_existing(path), split) for split, path in self.given.items()]
        if len(self.paths) == 1 and self.paths[0].is_dir():
            return self._of_directory(self.paths[0])
        files = [_existing(path) for path in self.paths]
        for path in files:
            if files.count(path) > 1:
                raise BadRequest(f"{path}: given twice; name each file once")
        splits = [split_named(stem(path)) for path in files]
        if None in splits or len(set(splits)) < 2:
            return [(path, None) for path in files]
        return list(zip(files, splits, strict=True))

    def _of_directory(self, directory: Path) -> list[tuple[Path, str | None]]:
        suffixes = tuple(f".{self.kind}{packed}" for packed in ("", *CODECS))
        found = sorted(path for path in directory.iterdir() if path.name.endswith(suffixes) and path.is_file())
        if not found:
            raise BadRequest(f"{directory}: no *.{self.kind} file in it; give a directory or files that hold stories")
        named: dict[str, Path] = {}
        for path in found:
            if split_named(stem(path)) and (other := named.setdefault(stem(path), path)) != path:
                raise BadRequest(f"{path}: {other.name} stands beside it; keep one of the two")
        if named:
            return [(path, split_named(name)) for name, path in named.items()]
        return [(path, None) for path in found]


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise BadRequest(f"{path}: a directory; give a single directory or one or more files")
    if not path.is_file():
        raise BadRequest(f"{path}: no such file; check the path")
    return path
