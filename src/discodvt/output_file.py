"""A single output file that grows by whole pieces, and is resumed where a killed run left it (`discodvt.artefacts`).

In a store files do not grow: there a local file does, and what is added to it is put as parts in `NAME.parts/`, which
are joined when the work is complete.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from discodvt.errors import BadRequest
from discodvt.resumable import LOCK, MANIFEST, REPLACED, REQUEST, ResumableOutput, locked, request_of
from discodvt.storage import RemotePath, remove, upload

PARTS = ".parts"
PART_BYTES, PART_SECONDS = 1 << 20, 5.0  # a part is put when it has so many bytes, or so much time has passed


class OutputFile(ResumableOutput):
    """A single file that grows by whole pieces. `open_output_file` makes it."""

    kind = "file"

    def __init__(self, path: Path) -> None:
        beside = {name: path.with_name(f"{path.name}.{name}") for name in (MANIFEST, REQUEST)}
        super().__init__(
            path, manifest=beside[MANIFEST], request_file=beside[REQUEST], lock=path.with_name(path.name + LOCK)
        )
        self.file: BinaryIO  # open for reading and appending
        self.working = path  # the file that grows

    def append(self, piece: bytes) -> None:
        """Add a piece; once this returns, a killed process does not lose it."""
        self.file.write(piece)
        self.file.flush()

    def finish(self, **facts: Any) -> None:
        os.fsync(self.file.fileno())
        super().finish(**facts)

    def abandon(self) -> None:
        self.file.close()
        super().abandon()

    def _clear(self) -> None:
        super()._clear()
        self.path.unlink(missing_ok=True)  # an empty one too

    def _content(self) -> list[Path]:
        return [self.path] if self.path.exists() and self.path.stat().st_size else []

    def _aside(self, path: Path) -> Path:
        return self.path.with_name(self.path.name + REPLACED + path.name.removeprefix(self.path.name))

    def _kept(self) -> dict[Path, Path]:
        kept = self._aside(self.path)
        return {kept: self.path} if kept.exists() else {}

    def _forget_replaced(self) -> None:
        for path in (self.manifest, self.path):
            self._aside(path).unlink(missing_ok=True)


class RemoteOutputFile(OutputFile):
    """The same in a store, where files do not grow: a local file does, and what is added is put as parts.

    A killed process loses what it added in the last seconds. Parts are joined when the work is complete.
    """

    def __init__(self, path: RemotePath, working: Path) -> None:
        super().__init__(path)
        self.target, self.working = path, working
        self._parts = path.with_name(path.name + PARTS)
        self._sent = 0  # bytes of the local file that are in the store
        self._last = time.monotonic()

    def fetch(self) -> None:
        """Bring back what is there."""
        there = [self.target] if self.complete else sorted(self._parts.iterdir())
        with self.working.open("wb") as file:
            for path in there:
                with path.open("rb") as part:
                    shutil.copyfileobj(part, file)
        self._sent = self.working.stat().st_size

    def append(self, piece: bytes) -> None:
        super().append(piece)
        due = time.monotonic() - self._last > PART_SECONDS
        if due or self.file.seek(0, os.SEEK_END) - self._sent >= PART_BYTES:
            self.send()

    def send(self) -> None:
        """Put what was added since as the next part."""
        self._last = time.monotonic()
        if self.remote_lock is not None:
            self.remote_lock.check()
        self.file.seek(self._sent)
        if added := self.file.read():
            (self._parts / f"{self._sent:012d}").write_bytes(added)
            self._sent += len(added)

    def finish(self, **facts: Any) -> None:
        self.send()
        upload(self.working, self.target)
        super().finish(**facts)
        remove(self._parts)

    def _clear(self) -> None:
        super()._clear()
        remove(self._parts)

    def _content(self) -> list[Path]:
        return [path for path in (self.target, self._parts) if path.exists()]


@contextmanager
def open_output_file(
    path: Path, stage: str, *, config: Mapping[str, Any], overwrite: bool = False
) -> Iterator[OutputFile]:
    """Lock a file for `stage`, new or to be resumed; its folder is made where there is none."""
    if path.exists() and not path.is_file():
        raise BadRequest(f"{path}: not a file; give a file for the output of `{stage}`")
    if isinstance(path, RemotePath):
        with tempfile.TemporaryDirectory(prefix="discodvt-") as folder:
            remote = RemoteOutputFile(path, Path(folder) / path.name)
            with locked(remote):
                remote.begin(request_of(stage, config), overwrite=overwrite)
                remote.fetch()
                with remote.working.open("a+b") as remote.file:
                    try:
                        yield remote
                    finally:
                        if not remote.complete and not remote.file.closed:
                            remote.send()
        return
    opened = OutputFile(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise BadRequest(f"{path}: cannot be written ({error.strerror}); give another file") from None
    with locked(opened):
        opened.begin(request_of(stage, config), overwrite=overwrite)
        with path.open("a+b") as opened.file:
            yield opened
