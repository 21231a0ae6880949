"""Files as sources have them: lines of text, and records of JSONL, CSV and Parquet; plain, `.gz` or `.zst`; streamed.

What cannot be read is an error with its file and line. A line or a record of more than so many megabytes is an error
before more of it is in memory: a small packed file may unpack to one line of gigabytes.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import pyarrow as pa

from discodvt.errors import BadRequest
from discodvt.storage import open_for_arrow

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

CODECS = {".gz": "gzip", ".zst": "zstd"}
MAX_STORY_MB = 16
ROWS_PER_READ = 64


class Line(NamedTuple):
    """A line with its number from 1, its end (`\\n` or `\\r\\n`), and how many bytes of the file were read by then."""

    number: int
    text: str
    position: int

    @property
    def content(self) -> str:
        return self.text.removesuffix("\n").removesuffix("\r")


class Record(NamedTuple):
    """The values of one record by column, and where it stands."""

    values: Mapping[str, Any]
    place: str
    position: int


Select = Callable[[Collection[str], str], list[str]]  # (columns of the file, its place) -> columns to read


def read_lines(path: Path, *, max_story_mb: int | None = None) -> Iterator[Line]:
    """Stream the lines of a file; a byte-order mark is dropped, an empty or broken file is an error."""
    codec = CODECS.get(path.suffix)
    limit = _bytes(max_story_mb)
    with ExitStack() as stack:
        raw = stack.enter_context(open_binary(path))
        stream: BinaryIO = raw
        if codec:
            unpacked = stack.enter_context(pa.CompressedInputStream(raw, codec))
            stream = cast(BinaryIO, stack.enter_context(io.BufferedReader(unpacked)))
        number, offset = 0, 0
        while line := _next_line(stream, f"{path}:{number + 1}", limit=limit, packed=codec is not None):
            number += 1
            if len(line) > limit:
                raise too_long(f"{path}:{number}", "a line", max_story_mb)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"byte {offset + error.start}{' of the unpacked text' if codec else ''}"
                raise BadRequest(f"{path}:{number}: not UTF-8 at {where}; save the file as UTF-8") from None
            offset += len(line)
            position = raw.tell() if raw.seekable() else offset  # a pipe has no position
            yield Line(number, text.removeprefix("\ufeff") if number == 1 else text, position)
    if number == 0:
        raise BadRequest(f"{path}: the file is empty; give one with stories in it")


def read_jsonl(path: Path, select: Select, *, max_story_mb: int | None = None) -> Iterator[Record]:
    """One JSON object per line; blank lines are passed over."""
    for line in read_lines(path, max_story_mb=max_story_mb):
        if line.text.strip():
            place = f"{path}:{line.number}"
            value = json_object(line.content, place)
            select(value.keys(), place)
            yield Record(value, place, line.position)


def read_csv(path: Path, select: Select, *, max_story_mb: int | None = None) -> Iterator[Record]:
    """Comma-separated values with a header line; line ends inside quotes kept."""
    csv.field_size_limit(2**31 - 1)  # the lines are counted below
    lines = _CsvLines(path, max_story_mb)
    rows = csv.reader(lines, strict=True)
    header: list[str] | None = None
    while True:
        first = lines.begin_record()
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
            check_once(header, select(header, place), place)
        elif len(values) != len(header):
            raise BadRequest(
                f"{place}: {len(values)} fields, the header has {len(header)}; quote fields that contain commas"
            )
        else:
            yield Record(dict(zip(header, values, strict=True)), place, lines.position)


def read_parquet(path: Path, select: Select, *, max_story_mb: int | None = None) -> Iterator[Record]:
    """A Parquet file; only the columns needed are read."""
    number = 0
    with open_parquet(path) as file:
        size, total = path.stat().st_size, max(1, file.metadata.num_rows)
        columns = select(file.schema_arrow.names, str(path))
        check_once(file.schema_arrow.names, columns, str(path))
        for block in file.iter_batches(batch_size=ROWS_PER_READ, columns=columns, use_threads=False):
            arrays = [block.column(name) for name in columns]
            for values in zip(*arrays, strict=True):
                number += 1
                place = f"{path}: row {number}"
                try:
                    row = {name: value.as_py() for name, value in zip(columns, values, strict=True)}
                except UnicodeDecodeError as error:
                    raise BadRequest(f"{place}: not UTF-8 ({error.reason}); save the text as UTF-8") from None
                if any(isinstance(value, str) and len(value) > _bytes(max_story_mb) for value in row.values()):
                    raise too_long(place, "a value", max_story_mb)
                yield Record(row, place, size * number // total)


FORMATS: dict[str, Callable[..., Iterator[Record]]] = {"jsonl": read_jsonl, "csv": read_csv, "parquet": read_parquet}


def json_object(text: str, place: str) -> dict[str, Any]:
    """The JSON object a line holds; anything else is an error that says where."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at")
        raise BadRequest(f"{place}: not JSON ({reason}, column {error.colno}); repair or remove the line") from None
    except RecursionError:
        raise BadRequest(f"{place}: JSON nested too deep; repair or remove the line") from None
    except ValueError:  # Python reads no number of more than 4300 digits
        raise BadRequest(f"{place}: a number of thousands of digits; write it as text, in quotes") from None
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise BadRequest(f'{place}: a JSON {kind}; expected one object per line, such as {{"prompt": …, "story": …}}')
    return value


def text_of(record: Record, column: str) -> str:
    """The text in a column of a record; a value that is none is an error."""
    value = record.values[column]
    if value is None:
        raise BadRequest(f"{record.place}: null in column `{column}`; remove the row or give it a text")
    if not isinstance(value, str):
        raise BadRequest(f"{record.place}: column `{column}` holds a {type(value).__name__}; expected text")
    return value


def open_binary(path: Path) -> BinaryIO:
    """A file, or standard input for `-`."""
    if str(path) == "-":
        return sys.stdin.buffer
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a readable file") from None


@contextmanager
def open_parquet(path: Path) -> "Iterator[ParquetFile]":
    """A Parquet file, whatever bytes its name is made of; what Arrow finds wrong with it becomes one line."""
    from pyarrow.parquet import ParquetFile

    with open_binary(path) as file:
        if not file.read(1):
            raise BadRequest(f"{path}: the file is empty; give one with stories in it")
    try:
        with open_for_arrow(path) as raw, ParquetFile(raw) as parquet:
            yield parquet
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        reason = " ".join(str(error).split())
        raise BadRequest(f"{path}: not a Parquet file, or a truncated one ({reason}); write it again") from None


def find_file(directory: Path, name: str) -> Path | None:
    """The file `name` of a directory, or its packed form."""
    for suffix in ("", *CODECS):
        path = directory / (name + suffix)
        if path.is_file():
            return path
    return None


def check_once(present: Collection[str], wanted: Collection[str], place: str) -> None:
    """A column that is read must be there once only."""
    for name in wanted:
        if list(present).count(name) > 1:
            raise BadRequest(f"{place}: the column `{name}` is there twice; rename or remove one of them")


def too_long(place: str, what: str, max_story_mb: int | None) -> BadRequest:
    """The error for text beyond the limit; None stands for a limit that the caller cannot change."""
    if max_story_mb is None:
        return BadRequest(f"{place}: {what} of more than {MAX_STORY_MB} MB; split it")
    return BadRequest(
        f"{place}: {what} of more than {max_story_mb} MB; split it, or raise `max_story_mb`", parameter="max_story_mb"
    )


def _bytes(max_story_mb: int | None) -> int:
    return (MAX_STORY_MB if max_story_mb is None else max_story_mb) << 20


def _next_line(stream: BinaryIO, place: str, *, limit: int, packed: bool) -> bytes:
    try:
        return stream.readline(limit + 1)
    except OSError as error:
        if not packed:
            raise
        raise BadRequest(f"{place}: truncated or corrupt ({error}); copy or download the file again") from None


class _CsvLines:
    """Lines for the CSV reader, which takes several at a time: where it is, and how much a record has taken."""

    def __init__(self, path: Path, max_story_mb: int | None) -> None:
        self._path, self._max_story_mb = path, max_story_mb
        self._lines = read_lines(path, max_story_mb=max_story_mb)
        self._taken = 0
        self.number = 0
        self.position = 0

    def begin_record(self) -> int:
        """Count anew; returns the number of the next line."""
        self._taken = 0
        return self.number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.number, self.position = line.number, line.position
        self._taken += len(line.text)
        if self._taken > _bytes(self._max_story_mb):
            raise too_long(f"{self._path}:{line.number}", "a row", self._max_story_mb)
        return line.text
