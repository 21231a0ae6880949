"""Arrays in a safetensors file, mapped into memory: the system reads what is looked at, and all processes share it."""

import errno
import json
import os
from collections.abc import Mapping
from math import prod
from mmap import ACCESS_READ, ACCESS_WRITE, mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discodvt.errors import BadRequest
from discodvt.storage import RemotePath

Arrays = dict[str, NDArray[Any]]
_TYPES: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8"), "I32": np.dtype("<i4")}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def map_arrays(path: Path) -> Arrays:
    """The arrays of a file, by name, read-only; one of a store is read. A file that is cut short is refused."""
    try:
        if isinstance(path, RemotePath):
            return _views(path.read_bytes())
        with path.open("rb") as file:
            mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
        return _views(mapped)
    except FileNotFoundError:
        raise BadRequest(f"{path}: no such file; make it again with `overwrite`", parameter="overwrite") from None
    except (ValueError, KeyError, TypeError):  # of an empty file, of a header, or of a view past the end
        raise BadRequest(f"{path}: cut short or not safetensors; make it again") from None


def create_arrays(path: Path, shapes: Mapping[str, tuple[str, int]]) -> Arrays:
    """A new file of arrays of zeros to be filled in place; `shapes` gives type (`int32`, `int64`) and length."""
    header: dict[str, Any] = {}
    end = 0
    for name, (kind, length) in sorted(shapes.items(), key=lambda item: (item[1][0] != "int64", item[0])):
        begin, end = end, end + length * np.dtype(kind).itemsize
        header[name] = {"dtype": _NAMES[np.dtype(kind)], "shape": [length], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb+") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.flush()
        _reserve(file.fileno(), 8 + len(text) + end)
        return _views(mmap(file.fileno(), 0, access=ACCESS_WRITE))


def _reserve(file: int, size: int) -> None:
    """Make an open file this long and take the room for it, where the system can: what is mapped is written when there
    is no way to say that the disk is full, and the process would be killed."""
    os.truncate(file, size)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # of a file system that cannot
                raise


def _views(mapped: mmap | bytes) -> Arrays:
    size = int.from_bytes(mapped[:8], "little")
    header = json.loads(mapped[8 : 8 + size])
    header.pop("__metadata__", None)
    arrays: Arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        kind, count = _TYPES[entry["dtype"]], prod(entry["shape"])
        if end - begin != count * kind.itemsize or 8 + size + end > len(mapped):
            raise ValueError(f"{name} ends past the file")
        arrays[name] = np.frombuffer(mapped, kind, count, 8 + size + begin) if count else np.empty(0, kind)
    return arrays
