"""Resumable output: where every stage writes, so that nothing half-written is ever taken for whole.

A stage writes a directory (`open_stage`) or a single file (`open_output_file`); both keep to one protocol:

| | in a directory | beside a file NAME |
|---|---|---|
| the request, from the first moment: stage, configuration, hashes of the inputs | `stage.json` | `NAME.stage.json` |
| the manifest, last: the request, versions, commit, facts of the work | `manifest.json` | `NAME.manifest.json` |
| the lock, while a run is at work | `.lock` | `NAME.lock` |
| what `overwrite` replaces, until the new work is complete | `.replaced/` | `NAME.replaced` |

Output with a manifest is complete; without one it is resumed by the same request and refused to any other. Files of a
directory are written under a temporary name and renamed; a single file only grows. Nothing depends on the time of day,
so a resumed run ends in the same bytes. What was replaced comes back if the new request turns out to be wrong.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

from discodvt.errors import BadRequest

MANIFEST = "manifest.json"
REQUEST = "stage.json"
LOCK = ".lock"
TEMPORARY = ".partial"
REPLACED = ".replaced"
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

    @property
    def complete(self) -> bool:
        return self.manifest.exists()

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest of complete output says of the work."""
        facts: dict[str, Any] = _read_json(self.manifest)["facts"]
        return facts

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the output is complete from here on."""
        _write_json(self.manifest, self.request | provenance() | {"facts": facts})
        self.request_file.unlink(missing_ok=True)
        self._forget_replaced()

    def abandon(self) -> None:
        """Remove what was written: after a wrong request nothing is worth resuming. What was replaced comes back."""
        self._clear()
        self._bring_back()

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
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

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
        made_by = _read_json(self.manifest).get("stage") if self.complete else stage
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
        held = _read_json(note)
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


class StageDirectory(ResumableOutput):
    """One stage's output directory. `open_stage` makes it."""

    kind = "directory"

    def __init__(self, directory: Path, *, fresh: bool) -> None:
        super().__init__(
            directory, manifest=directory / MANIFEST, request_file=directory / REQUEST, lock=directory / LOCK
        )
        self.directory = directory
        self.unwanted = False  # abandoned, and not there before: to be removed when the lock is released
        self._fresh = fresh

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a temporary path; when the block ends well, it becomes the file `name` at once and whole."""
        final = self.directory / name
        final.parent.mkdir(parents=True, exist_ok=True)
        with replacing(final) as partial:
            yield partial

    def write_json(self, name: str, value: Any) -> None:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        _write_json(self.directory / name, value)

    def abandon(self) -> None:
        super().abandon()
        self.unwanted = self._fresh

    def finish(self, **facts: Any) -> None:
        for stale in list(self.directory.rglob("*" + TEMPORARY)):
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
        super().finish(**facts)

    def _content(self) -> list[Path]:
        own = {MANIFEST, REQUEST, REQUEST + TEMPORARY, LOCK, REPLACED}
        return [path for path in self.directory.iterdir() if path.name not in own]

    def _aside(self, path: Path) -> Path:
        return self.directory / REPLACED / path.name

    def _kept(self) -> dict[Path, Path]:
        kept = (self.directory / REPLACED).iterdir()
        return {path: self.directory / path.name for path in kept if path.name != MANIFEST}

    def _forget_replaced(self) -> None:
        shutil.rmtree(self.directory / REPLACED, ignore_errors=True)


class OutputFile(ResumableOutput):
    """A single file that grows by whole pieces. `open_output_file` makes it."""

    kind = "file"

    def __init__(self, path: Path) -> None:
        beside = {name: path.with_name(f"{path.name}.{name}") for name in (MANIFEST, REQUEST)}
        super().__init__(
            path, manifest=beside[MANIFEST], request_file=beside[REQUEST], lock=path.with_name(path.name + LOCK)
        )
        self.file: BinaryIO  # open for reading and appending

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


@dataclass(frozen=True, slots=True)
class StageFacts:
    """What a stage returns: the facts of its manifest, and whether they were there already."""

    facts: dict[str, Any]
    already_complete: bool = False


@contextmanager
def open_stage(
    directory: Path,
    stage: str,
    *,
    config: Mapping[str, Any],
    inputs: Sequence[Path] = (),
    overwrite: bool = False,
    may_change: Collection[str] = (),
) -> Iterator[StageDirectory]:
    """Lock `directory` for `stage` and say whether its work is new, to be resumed, or already complete.

    `may_change` names keys of the configuration (`optimizer.learning_rate`) in which a resumed run may differ; what
    did change is kept in the manifest.
    """
    if directory.exists() and not directory.is_dir():
        raise BadRequest(f"{directory}: a file is in the way; give a directory for the output of `{stage}`")
    for path in inputs:
        if directory.resolve() in path.resolve().parents:
            raise BadRequest(f"{directory}: holds {path}, which is read; choose another directory for the output")
    opened = StageDirectory(directory, fresh=not directory.exists())
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"{directory}: {error.strerror}; give a directory that can be written") from None
    try:
        with _locked(opened):
            hashes = {name: file_hash(path) for name, path in zip(_short_names(inputs), inputs, strict=True)}
            _begin(opened, _request(stage, config) | {"inputs": hashes}, overwrite=overwrite, may_change=may_change)
            yield opened
    finally:
        if opened.unwanted:
            directory.rmdir()


@contextmanager
def open_output_file(
    path: Path, stage: str, *, config: Mapping[str, Any], overwrite: bool = False
) -> Iterator[OutputFile]:
    """The same for a single file, whose folder is made where there is none."""
    if path.exists() and not path.is_file():
        raise BadRequest(f"{path}: not a file; give a file for the output of `{stage}`")
    opened = OutputFile(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
    except OSError as error:
        raise BadRequest(f"{path}: cannot be written ({error.strerror}); give another file") from None
    with _locked(opened):
        _begin(opened, _request(stage, config), overwrite=overwrite, may_change=())
        with path.open("a+b") as opened.file:
            yield opened


def read_manifest(directory: Path, stage: str | None = None) -> dict[str, Any]:
    """The manifest of a finished stage directory, or a clear error."""
    if not directory.is_dir():
        raise BadRequest(f"{directory}: no such directory")
    if not (directory / MANIFEST).exists():
        unfinished = (directory / REQUEST).exists()
        hint = (
            "unfinished; run its command again to resume it" if unfinished else f"no {MANIFEST}; not made by discodvt"
        )
        raise BadRequest(f"{directory}: {hint}")
    manifest = _read_json(directory / MANIFEST)
    if stage is not None and manifest.get("stage") != stage:
        raise BadRequest(f"{directory}: made by `{manifest.get('stage')}`, expected the output of `{stage}`")
    return manifest


def provenance() -> dict[str, Any]:
    """The versions of the libraries at work, and the commit of the source."""
    return {"versions": _versions(), "commit": _commit()}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in blocks."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a readable file") from None


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


def _request(stage: str, config: Mapping[str, Any]) -> dict[str, Any]:
    return {"stage": stage, "config": json.loads(json.dumps(dict(config)))}


def _begin(output: ResumableOutput, request: dict[str, Any], *, overwrite: bool, may_change: Collection[str]) -> None:
    output.request = request
    output._recover()
    if overwrite:
        output._make_room()
    output._agree(may_change)
    if not output.complete:
        _write_json(output.request_file, output.request)


@contextmanager
def _locked(output: ResumableOutput) -> Iterator[None]:
    """Exclude other runs. The operating system releases the lock of a killed process; the file it leaves is reused."""
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
    partial = final.with_name(final.name + TEMPORARY)
    try:
        yield partial
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(final)


def _write_json(path: Path, value: Any) -> None:
    with replacing(path) as partial:
        text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        partial.write_bytes(
            text.encode("utf-8", errors="backslashreplace")
        )  # names that are not UTF-8, as JSON escapes


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BadRequest(f"{path}: not readable as JSON; delete it and what it stands for, and run again")
    return value


def _short_names(paths: Sequence[Path]) -> list[str]:
    """File names, with as many of their folders as it takes to tell them apart."""
    parts = [path.absolute().parts for path in paths]
    deepest = max(map(len, parts), default=1)
    for depth in range(1, deepest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names if parts else []


def _versions() -> dict[str, str]:
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
