"""Text files as sources have them: plain, `.gz` or `.zst` by suffix; UTF-8; lines of any length, one at a time."""

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import pyarrow as pa

from discodvt.errors import BadRequest

CODECS = {".gz": "gzip", ".zst": "zstd"}


class Line(NamedTuple):
    """A line with its number from 1, its end (`\\n` or `\\r\\n`), and how many bytes of the file were read by then."""

    number: int
    text: str
    position: int

    @property
    def content(self) -> str:
        return self.text.removesuffix("\n").removesuffix("\r")


def read_lines(path: Path) -> Iterator[Line]:
    """Stream the lines of a file; a byte-order mark is dropped, an empty or broken file is an error."""
    codec = CODECS.get(path.suffix)
    with ExitStack() as stack:
        raw = stack.enter_context(open_binary(path))
        stream: BinaryIO = raw
        if codec:
            unpacked = stack.enter_context(pa.CompressedInputStream(raw, codec))
            stream = cast(BinaryIO, stack.enter_context(io.BufferedReader(unpacked)))
        number, offset = 0, 0
        while line := _next_line(stream, path, number=number + 1, packed=codec is not None):
            number += 1
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"byte {offset + error.start}{' of the unpacked text' if codec else ''}"
                raise BadRequest(f"{path}:{number}: not UTF-8 at {where}; save the file as UTF-8") from None
            offset += len(line)
            position = raw.tell() if raw.seekable() else offset  # a pipe tells nothing
            yield Line(number, text.removeprefix("\ufeff") if number == 1 else text, position)
    if number == 0:
        raise BadRequest(f"{path}: the file is empty; give one with stories in it")


def open_binary(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a readable file") from None


def find_file(directory: Path, name: str) -> Path | None:
    """The file `name` of a directory, or its packed form."""
    for suffix in ("", *CODECS):
        path = directory / (name + suffix)
        if path.is_file():
            return path
    return None


def _next_line(stream: BinaryIO, path: Path, *, number: int, packed: bool) -> bytes:
    try:
        return stream.readline()
    except OSError as error:
        if not packed:
            raise
        raise BadRequest(f"{path}:{number}: truncated or corrupt ({error}); copy or download the file again") from None
