"""Records of JSONL, CSV and Parquet files, streamed; what cannot be read is an error with its file and line.

Each function takes the file and `select`, which is told the columns there are and returns those to read.
"""

import csv
import json
import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from discodvt.corpus.columns import Record
from discodvt.corpus.textfiles import Line, open_binary, read_lines
from discodvt.errors import BadRequest

Select = Callable[[Collection[str], str], list[str]]
ROWS_PER_READ = 64


def read_jsonl(path: Path, select: Select) -> Iterator[Record]:
    """One JSON object per line; blank lines are passed over."""
    for line in read_lines(path):
        if not line.text.strip():
            continue
        place = f"{path}:{line.number}"
        try:
            value = json.loads(line.content)
        except json.JSONDecodeError as error:
            reason = error.msg.removesuffix(" at")
            raise BadRequest(f"{place}: not JSON ({reason}, column {error.colno}); mend or remove the line") from None
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"{place}: JSON that cannot be read ({error}); mend or remove the line") from None
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise BadRequest(
                f'{place}: a JSON {kind}; expected one object per line, such as {{"prompt": …, "story": …}}'
            )
        select(value.keys(), place)
        yield Record(value, place, line.position)


def read_csv(path: Path, select: Select) -> Iterator[Record]:
    """Comma-separated values with a header line; fields of any length, line ends inside quotes kept."""
    csv.field_size_limit(sys.maxsize)
    lines = _Remembered(read_lines(path))
    rows = csv.reader(lines, strict=True)
    header: list[str] | None = None
    while True:
        first = lines.number + 1
        try:
            values = next(rows, None)
        except csv.Error as error:
            raise BadRequest(
                f"{path}:{lines.number}: not CSV ({error}); check the quotes around line {first}"
            ) from None
        if values is None:
            return
        if not values:
            continue
        place = f"{path}:{first}"
        if header is None:
            header = values
            select(header, place)
        elif len(values) != len(header):
            raise BadRequest(
                f"{place}: {len(values)} fields, the header has {len(header)}; quote fields that contain commas"
            )
        else:
            yield Record(dict(zip(header, values, strict=True)), place, lines.position)


def read_parquet(path: Path, select: Select) -> Iterator[Record]:
    """A Parquet file; only the columns needed are read."""
    size = path.stat().st_size
    if size == 0:
        raise BadRequest(f"{path}: the file is empty; give one with stories in it")
    number = 0
    try:
        with open_binary(path) as raw, pq.ParquetFile(raw) as file:
            columns = select(file.schema_arrow.names, str(path))
            total = max(1, file.metadata.num_rows)
            for block in file.iter_batches(batch_size=ROWS_PER_READ, columns=columns, use_threads=False):
                arrays = [block.column(name) for name in columns]
                for values in zip(*arrays, strict=True):
                    number += 1
                    row = {name: value.as_py() for name, value in zip(columns, values, strict=True)}
                    yield Record(row, f"{path}: row {number}", size * number // total)
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path}: row {number}: not UTF-8 ({error.reason}); save the text as UTF-8") from None
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise BadRequest(f"{path}: not a Parquet file, or a truncated one ({reason}); write it again") from None


FORMATS: dict[str, Callable[[Path, Select], Iterator[Record]]] = {
    "jsonl": read_jsonl,
    "csv": read_csv,
    "parquet": read_parquet,
}


class _Remembered:
    """Lines for the CSV reader, which takes several at a time: the number and place of the last one it took."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self.number = 0
        self.position = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number, self.position = line.number, line.position
        return line.text
