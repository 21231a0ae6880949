"""The protocol of resumable output, for a directory and a single file alike: lock, request, manifest last, replacement.

`discodvt.artefacts` says which file is which; the two kinds of output are there.
"""

import json
import os
import platform
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discodvt.errors import BadRequest
from discodvt.storage import RemotePath, remove, upload

if TYPE_CHECKING:
    from discodvt.remote_lock import RemoteLock

MANIFEST, REQUEST, LOCK, REPLACED = "manifest.json", "stage.json", ".lock", ".replaced"  # as `artefacts` has them
TEMPORARY = ".partial"
MOST_DIFFERENCES = 5  # named in an error


class ResumableOutput(ABC):
    """What a run writes, locked by this process; `request` is what it was asked for."""

    kind: str

    def __init__(self, path: Path, *, manifest: Path, request_file: Path, lock: Path) -> None:
        self.path = path
        self.manifest = manifest
        self.request_file = request_file
        self.lock = lock
        self.request: dict[str, Any] = {}
        self.remote_lock: RemoteLock | None = None

    @property
    def complete(self) -> bool:
        return self.manifest.exists()

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest of complete output says of the work."""
        facts: dict[str, Any] = read_json(self.manifest)["facts"]
        return facts

    def begin(self, request: dict[str, Any], *, overwrite: bool = False, may_change: Collection[str] = ()) -> None:
        """Take up a request: what is there is resumed, replaced, or refused."""
        self.request = request
        self._recover()
        if overwrite:
            self._make_room()
        self._agree(may_change)
        if not self.complete:
            write_json(self.request_file, self.request)

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the output is complete from here on."""
        if self.remote_lock is not None:
            self.remote_lock.check()
        write_json(self.manifest, self.request | provenance() | {"facts": facts})
        self.request_file.unlink(missing_ok=True)
        self._forget_replaced()

    def abandon(self) -> None:
        """Remove what was written: after a wrong request nothing is worth resuming. What was replaced comes back."""
        self._clear()
        self._bring_back()

    @contextmanager
    def abandoned_if_wrong(self) -> Iterator[None]:
        """Abandon the output where the work in this block finds the request to be wrong."""
        try:
            yield
        except BadRequest:
            self.abandon()
            raise

    @abstractmethod
    def _content(self) -> list[Path]:
        """The work itself, without the files of the protocol."""

    @abstractmethod
    def _aside(self, path: Path) -> Path:
        """Where a file or folder of the work, or its manifest, is kept while it is being replaced."""

    @abstractmethod
    def _kept(self) -> dict[Path, Path]:
        """What is kept of replaced work, and where it belongs."""

    @abstractmethod
    def _forget_replaced(self) -> None: ...

    def _clear(self) -> None:
        for path in (*self._content(), self.request_file):
            remove(path)

    def _set_aside(self) -> None:
        """Keep finished work; its manifest goes first, so that no half is taken for whole."""
        self._forget_replaced()
        for path in (self.manifest, *self._content()):
            self._aside(path).parent.mkdir(exist_ok=True)
            path.replace(self._aside(path))

    def _bring_back(self) -> None:
        """Put replaced work back in its place, its manifest last."""
        if self._aside(self.manifest).exists():
            for kept, path in self._kept().items():
                kept.replace(path)
            self._aside(self.manifest).replace(self.manifest)
            self._forget_replaced()

    def _recover(self) -> None:
        """End what a killed run left half done: setting work aside, or forgetting what was replaced."""
        if self.complete:
            self._forget_replaced()
        elif not self.request_file.exists():
            self._bring_back()

    def _make_room(self) -> None:
        """Set finished work aside, clear unfinished; never touch what this stage of this program did not make."""
        if not self.complete and not self.request_file.exists():
            if self._content():
                raise BadRequest(
                    f"{self.path}: not made by discodvt, will not overwrite it; choose another {self.kind}"
                )
            return
        stage = self.request["stage"]
        made_by = read_json(self.manifest).get("stage") if self.complete else stage
        if made_by != stage:
            raise BadRequest(
                f"{self.path}: made by `{made_by}`, `{stage}` will not overwrite it; choose another {self.kind}"
            )
        if self.complete:
            self._set_aside()
        else:
            self._clear()

    def _agree(self, may_change: Collection[str]) -> None:
        """Refuse output of anything but this very request, finished or not; changes that are allowed are noted."""
        note = next((note for note in (self.manifest, self.request_file) if note.exists()), None)
        if note is None:
            if self._content():
                raise BadRequest(f"{self.path}: not empty and not made by discodvt; choose another {self.kind}")
            return
        held = read_json(note)
        state = "a finished" if self.complete else "an unfinished"
        if held.get("stage") != self.request["stage"]:
            raise BadRequest(f"{self.path}: holds {state} `{held.get('stage')}`; choose another {self.kind}")
        config = list(differences(held.get("config", {}), self.request["config"]))
        other = [f"another config ({_listed(config)})"] if any(key not in may_change for key, *_ in config) else []
        inputs = [name for name, *_ in differences(held.get("inputs", {}), self.request.get("inputs", {}))]
        other += [f"{'other inputs' if len(inputs) > 1 else 'another input'} ({', '.join(inputs)})"] if inputs else []
        if other:
            raise BadRequest(
                f"{self.path}: holds {state} `{held['stage']}` with {' and '.join(other)}; "
                f"choose another {self.kind}, or replace it with `overwrite`",
                parameter="overwrite",
            )
        changes = [*held.get("changes", ()), *({"key": key, "from": old, "to": new} for key, old, new in config)]
        if changes:
            self.request["changes"] = changes


@contextmanager
def locked(output: ResumableOutput) -> Iterator[None]:
    """Exclude other runs. The operating system releases the lock of a killed process; the file it leaves is reused."""
    if isinstance(output.lock, RemotePath):
        from discodvt.remote_lock import held

        with held(output.lock, str(output.path)) as output.remote_lock:
            yield
        return
    from filelock import FileLock, Timeout, UnixFileLock  # only what writes needs it

    lock = FileLock(output.lock, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise BadRequest(f"{output.path}: in use by another run; wait for it or choose another {output.kind}") from None
    except OSError as error:
        raise BadRequest(
            f"{output.path}: cannot be locked ({error.strerror}); give a {output.kind} that can be written"
        ) from None
    try:
        yield
    finally:
        if isinstance(lock, UnixFileLock):  # elsewhere releasing removes the file
            output.lock.unlink(missing_ok=True)  # while it is held: who waits on it finds it gone, and starts over
        lock.release()


@contextmanager
def replacing(final: Path) -> Iterator[Path]:
    """Yield a temporary path that takes the place of `final` when the block ends well."""
    if isinstance(final, RemotePath):
        with tempfile.TemporaryDirectory(prefix="discodvt-") as folder:
            local = Path(folder) / final.name
            yield local
            upload(local, final)
        return
    partial = final.with_name(final.name + TEMPORARY)
    try:
        yield partial
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(final)


def request_of(stage: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage is asked for, as JSON keeps it."""
    return {"stage": stage, "config": json.loads(json.dumps(dict(config)))}


def write_json(path: Path, value: Any) -> None:
    with replacing(path) as partial:
        text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        partial.write_bytes(
            text.encode("utf-8", errors="backslashreplace")
        )  # names that are not UTF-8, as JSON escapes


def read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadRequest(f"{path}: not readable as JSON; delete it and what it stands for, and run again")
    return value


def differences(held: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The keys (those of inner tables with a dot) in which two configurations differ, with both values."""
    for key in sorted(held.keys() | asked.keys()):
        old, new = held.get(key), asked.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from ((f"{key}.{inner}", *values) for inner, *values in differences(old, new))
        elif old != new:
            yield key, old, new


def _listed(changed: Sequence[tuple[str, Any, Any]]) -> str:
    shown = [f"{key}: {_short(old)} there, {_short(new)} asked for" for key, old, new in changed[:MOST_DIFFERENCES]]
    more = len(changed) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"


def provenance() -> dict[str, Any]:
    """The versions of the libraries at work, and the commit of the source."""
    return {"versions": library_versions(), "commit": _commit()}


@cache
def library_versions() -> dict[str, str]:
    """Python and the libraries that may change what a run writes."""
    found = {"python": platform.python_version()}
    for package in ("discodvt", "torch", "transformers", "accelerate", "spacy", "pyarrow"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of the source tree this package runs from, where it is one: not of a repository around it."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)
        return git("rev-parse", "HEAD")
    except (OSError, subprocess.SubprocessError):
        return None
