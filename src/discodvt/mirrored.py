"""A stage directory in a store whose work is done on this machine, by libraries that take local names, and mirrored.

What is local is put into the store as a whole state at a time: first its files, then `.mirror.json`, which names them.
So a run that is killed at any moment, here or while it puts a state, finds the last whole one again, on any machine; a
file that only grows is cut to what it was then. The manifest is put last of all, and `.mirror.json` is gone then. The
truth is in the store: the local directory is cleared before and after. The lock is in the store as well.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from discodvt.artefacts import LOCK, MANIFEST, REPLACED, REQUEST
from discodvt.errors import BadRequest, DiscoError
from discodvt.remote_lock import RemoteLock, held
from discodvt.resumable import TEMPORARY, read_json
from discodvt.storage import BLOCK, RemotePath, remove, upload

INDEX = ".mirror.json"


def workplace(target: RemotePath) -> Path:
    """Where output of a store is made on this machine: the same for all processes of a run."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "discodvt" / "work" / f"{target.name}-{hashlib.sha256(str(target).encode()).hexdigest()[:12]}"


class Mirror:
    """A local directory and its state in the store. `mirrored` makes it."""

    def __init__(
        self, target: RemotePath, lock: RemoteLock | None, *, without: Sequence[str], growing: Sequence[str]
    ) -> None:
        self.target, self.local = target, workplace(target)
        self._lock, self._without, self._growing = lock, tuple(without), tuple(growing)
        self._sent: dict[str, tuple[int, int]] = {}  # what the store has of each file: its size, and when it changed
        self._goes_on = False  # from the state that is there, which stays until the next is whole

    def fetch(self, *, whole: bool) -> None:
        """Bring the last state back; of finished work, and of all that is not wanted `whole`, only what it is."""
        there = {path.name for path in self.target.iterdir()}
        if MANIFEST in there:
            files: dict[str, int | None] = {MANIFEST: None}
        elif INDEX in there:
            files = dict(read_json(self.target / INDEX)["files"])
        elif [name for name in there if not name.startswith(LOCK)]:
            raise BadRequest(f"{self.target}: not empty and not made by discodvt; choose another directory")
        else:
            files = {}
        self._goes_on = whole and INDEX in there and MANIFEST not in there
        for name, size in files.items():
            if whole or name in (MANIFEST, REQUEST):
                self._bring(name, size if name.startswith(self._growing) else None)

    def _bring(self, name: str, size: int | None) -> None:
        here = self.local / name
        here.parent.mkdir(parents=True, exist_ok=True)
        with self.target.joinpath(*name.split("/")).open("rb") as file, here.open("wb") as kept:
            shutil.copyfileobj(cast(BinaryIO, file), kept, 8 * BLOCK)
            if size is not None:
                kept.truncate(size)
        if size is None:  # one that was cut is not as it is there
            self._sent[name] = _state(here)

    def send(self, *, unfinished: Collection[Path] = ()) -> None:
        """Put the state as it is now, without outputs others are still at; the one before stays until this is whole."""
        if self._lock is not None:
            self._lock.check()
        files = {name: path for name, path in self._files(unfinished) if name != MANIFEST}
        if not self._goes_on:
            self._put_index({})  # from here on the directory is ours, and what it holds is no state
            remove(self.target / MANIFEST)  # of what is replaced
            self._goes_on = True
        for name, path in files.items():
            self._put(name, path)
        self._put_index(files)
        self._forget_others(files)

    def finish(self) -> None:
        """Put the finished work, its manifest last."""
        self.send()
        self._put(MANIFEST, self.local / MANIFEST)
        remove(self.target / INDEX)

    def _put(self, name: str, path: Path) -> None:
        state = _state(path)
        if self._sent.get(name) != state:
            upload(path, self.target / name)
            self._sent[name] = state

    def _put_index(self, files: dict[str, Path]) -> None:
        listed = {name: path.stat().st_size for name, path in files.items()}
        (self.target / INDEX).write_text(json.dumps({"files": listed}, indent=1, sort_keys=True) + "\n")

    def _forget_others(self, files: dict[str, Path]) -> None:
        depth = len(self.target.parts)
        for path in self.target.files():
            name = "/".join(path.parts[depth:])
            if name not in files and name != INDEX and not name.startswith(LOCK):
                path.unlink(missing_ok=True)
                self._sent.pop(name, None)

    def _files(self, unfinished: Collection[Path]) -> Iterator[tuple[str, Path]]:
        """What belongs to a state, by name: nothing of an unfinished output, neither in it nor beside it."""
        skipped = (LOCK, REPLACED, *self._without)
        at_work = [path.relative_to(self.local).parts for path in unfinished]
        walked = os.walk(self.local)  # others may be at work meanwhile: it passes over a folder that has gone
        for path in sorted(Path(folder, name) for folder, _, names in walked for name in names):
            parts = path.relative_to(self.local).parts
            if parts[0].startswith(skipped) or path.suffix == LOCK or any(TEMPORARY in part for part in parts):
                continue
            if not any(_belongs_to(parts, output) for output in at_work):
                yield "/".join(parts), path


@contextmanager
def mirrored(
    target: RemotePath, *, whole: bool = True, without: Sequence[str] = (), growing: Sequence[str] = ()
) -> Iterator[Mirror]:
    """Lock output in a store and bring its state here (`whole`, or only what it is).

    `without` names files and folders that stay here, `growing` those that only grow. Errors name the store.
    """
    with held(target / LOCK, str(target)) as lock:
        mirror = Mirror(target, lock, without=without, growing=growing)
        _clear(mirror.local)
        try:
            mirror.local.mkdir(parents=True)
            mirror.fetch(whole=whole)
            yield mirror
        except DiscoError as error:
            error.args = (str(error).replace(str(mirror.local), str(target)), *error.args[1:])
            raise
        finally:
            _clear(mirror.local)


@contextmanager
def working_directory(target: Path) -> Iterator[tuple[Path, Callable[..., None]]]:
    """Where to work on `target`: there, or for a store in its mirror; and what puts a state (`Mirror.send`)."""
    if not isinstance(target, RemotePath):
        yield target, lambda **_: None
        return
    with mirrored(target) as mirror:
        yield mirror.local, mirror.send


def _belongs_to(parts: Sequence[str], output: Sequence[str]) -> bool:
    """Whether a file is an output, lies in it, or beside it: `a.jsonl.shards` is of `a.jsonl`."""
    *folder, name = output
    found = parts[len(folder)] if parts[: len(folder)] == tuple(folder) and len(parts) > len(folder) else ""
    return found == name or found.startswith(f"{name}.")


def _clear(local: Path) -> None:
    shutil.rmtree(local, ignore_errors=True)


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
