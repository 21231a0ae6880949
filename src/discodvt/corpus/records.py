"""The corpus on disk: one Parquet file per split, read and written in blocks so that memory does not grow with it.

A corpus directory is a stage directory with `train.parquet`, `valid.parquet`, `test.parquet` (those it has) and the
columns `id`, `prompt`, `story`; an annotated one adds `edus` and `relations`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from discodvt.artefacts import REQUEST
from discodvt.corpus.formats import check_once, open_parquet
from discodvt.errors import BadRequest

SPLITS = ("train", "valid", "test")
ROWS_PER_BLOCK = 1024
CHARACTERS_PER_BLOCK = 1 << 19  # long stories make shorter blocks, so that memory does not follow their length

CORPUS_SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "prompt", "story")])
_SPAN = pa.struct([pa.field("start", pa.int32(), nullable=False), pa.field("end", pa.int32(), nullable=False)])
ANNOTATED_SCHEMA = pa.schema(
    [
        *CORPUS_SCHEMA,
        pa.field("edus", pa.list_(pa.field("element", _SPAN, nullable=False)), nullable=False),
        pa.field("relations", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Example:
    """One record of a corpus: a prompt and the story written to it."""

    id: str
    prompt: str
    story: str


def split_files(directory: Path) -> dict[str, Path]:
    """The split files a corpus directory has, in their fixed order."""
    found = {split: directory / f"{split}.parquet" for split in SPLITS if (directory / f"{split}.parquet").is_file()}
    if not found and (directory / REQUEST).exists():
        raise BadRequest(f"{directory}: unfinished; run its command again to resume it")
    if not found:
        raise BadRequest(
            f"{directory}: no {', '.join(f'{s}.parquet' for s in SPLITS)}; make a corpus with `discodvt prepare`"
        )
    return found


def read_rows(path: Path, schema: pa.Schema, *, skip: int = 0, take: int | None = None) -> Iterator[dict[str, Any]]:
    """Stream rows `skip` to `skip + take` of a Parquet file, checking its columns against `schema`."""
    with open_parquet(path) as file:
        present = file.schema_arrow.names
        missing = [name for name in schema.names if name not in present]
        if missing:
            raise BadRequest(f"{path}: no column {', '.join(missing)}; it has {', '.join(present)}")
        check_once(present, schema.names, str(path))
        groups, skip = _groups_from(file, skip)
        blocks = file.iter_batches(batch_size=ROWS_PER_BLOCK, row_groups=groups, columns=schema.names)
        rows = (row for block in blocks for row in block.to_pylist())
        yield from islice(rows, skip, None if take is None else skip + take)


def read_examples(path: Path, *, skip: int = 0, take: int | None = None) -> Iterator[Example]:
    """Stream the stories of a split file; a null story is an error that names its row."""
    for number, row in enumerate(read_rows(path, CORPUS_SCHEMA, skip=skip, take=take), start=skip):
        refuse_null(row, CORPUS_SCHEMA.names, path, number)
        yield Example(**row)


def refuse_null(row: Mapping[str, Any], names: Iterable[str], path: Path, number: int) -> None:
    """A row without a value in one of these columns is an error that names it."""
    null = [name for name in names if row[name] is None]
    if null:
        raise BadRequest(f"{path}: row {number} has no {', '.join(null)}; prepare the corpus again without null values")


def row_count(path: Path) -> int:
    with open_parquet(path) as file:
        return int(file.metadata.num_rows)


def columns_of(path: Path) -> list[str]:
    """The columns a Parquet file has."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def notes_of(path: Path) -> dict[str, str]:
    """The texts kept with a Parquet file."""
    with open_parquet(path) as file:
        return {name.decode(): text.decode() for name, text in (file.metadata.metadata or {}).items()}


class RowWriter:
    """Writes rows to a Parquet file one at a time, a block at once. The same rows give the same bytes."""

    def __init__(self, path: Path | BytesIO, schema: pa.Schema) -> None:
        self._stream = path.open("wb") if isinstance(path, Path) else path  # Arrow opens no name that is not UTF-8
        self._file = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._schema = schema
        self._block: list[dict[str, Any]] = []
        self._characters = 0
        self.written = 0

    def write(self, row: dict[str, Any]) -> None:
        self._block.append(row)
        self._characters += sum(len(value) for value in row.values() if isinstance(value, str))
        self.written += 1
        if len(self._block) == ROWS_PER_BLOCK or self._characters >= CHARACTERS_PER_BLOCK:
            self._flush()

    def note(self, name: str, text: str) -> None:
        """Keep a text with the file, apart from its rows; `notes_of` reads it."""
        self._file.add_key_value_metadata({name: text})

    def _flush(self) -> None:
        if self._block:
            self._file.write_table(pa.Table.from_pylist(self._block, schema=self._schema))
        self._block = []
        self._characters = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._flush()
        finally:
            self._file.close()
            if not isinstance(self._stream, BytesIO):
                self._stream.close()


def write_rows(path: Path | BytesIO, rows: Iterable[dict[str, Any]], schema: pa.Schema) -> int:
    """Write rows to a Parquet file; returns how many."""
    with RowWriter(path, schema) as writer:
        for row in rows:
            writer.write(row)
    return writer.written


def _groups_from(file: pq.ParquetFile, skip: int) -> tuple[list[int], int]:
    """The row groups from the one that holds row `skip` on, and what is left to skip within them."""
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if skip < rows:
            return list(range(group, file.num_row_groups)), skip
        skip -= rows
    return [], 0
