"""Stage directories: where every stage writes, so that nothing half-written is ever taken for whole.

A stage directory holds `stage.json` from the first moment (what is being made: stage, configuration, input hashes) and
`manifest.json` only when all else is in place. A directory with a manifest is complete; one without is resumed by the
same request and refused to any other. Files are written under a temporary name and renamed. The directory itself is
locked while a run is at work in it. Nothing in it depends on the time of day, so a resumed run ends in the same bytes.
What `overwrite` replaces stays in a folder inside until the new work is complete, and comes back if it is refused.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from discodvt.errors import BadRequest

MANIFEST = "manifest.json"
REQUEST = "stage.json"
TEMPORARY = ".partial"
REPLACED = ".replaced"


class StageDirectory:
    """One stage's output directory, locked by this process. `open_stage` makes it."""

    def __init__(self, directory: Path, request: dict[str, Any], *, fresh: bool) -> None:
        self.directory = directory
        self.request = request
        self._fresh = fresh  # not there before

    @property
    def complete(self) -> bool:
        return (self.directory / MANIFEST).exists()

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest of a complete stage says of its work."""
        facts: dict[str, Any] = json.loads((self.directory / MANIFEST).read_text(encoding="utf-8"))["facts"]
        return facts

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """Yield a temporary path; when the block ends well, it becomes the file `name` at once and whole."""
        final = self.directory / name
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(final.name + TEMPORARY)
        try:
            yield partial
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(final)

    def write_json(self, name: str, value: Any) -> None:
        with self.writing(name) as path:
            path.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")

    def abandon(self) -> None:
        """Clear the directory: after a wrong request nothing in it is worth resuming. What was replaced comes back."""
        _clear(self.directory)
        _bring_back(self.directory)
        if self._fresh:
            self.directory.rmdir()

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the directory is complete from here on."""
        for stale in list(self.directory.rglob("*" + TEMPORARY)):
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink(missing_ok=True)
        self.write_json(MANIFEST, self.request | provenance() | {"facts": facts})
        (self.directory / REQUEST).unlink(missing_ok=True)
        shutil.rmtree(self.directory / REPLACED, ignore_errors=True)


@contextmanager
def open_stage(
    directory: Path, stage: str, *, config: Mapping[str, Any], inputs: Sequence[Path] = (), overwrite: bool = False
) -> Iterator[StageDirectory]:
    """Lock `directory` for `stage` and say whether its work is new, to be resumed, or already complete."""
    if directory.exists() and not directory.is_dir():
        raise BadRequest(f"{directory}: a file is in the way; give a directory for the output of `{stage}`")
    for path in inputs:
        if directory.resolve() in path.resolve().parents:
            raise BadRequest(f"{directory}: holds {path}, which is read; choose another directory for the output")
    fresh = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise BadRequest(f"{directory}: {error.strerror}; give a directory that can be written") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(f"{directory}: in use by another run; wait for it or choose another directory") from None
        request = {
            "stage": stage,
            "config": json.loads(json.dumps(dict(config))),
            "inputs": {name: file_hash(path) for name, path in zip(_short_names(inputs), inputs, strict=True)},
        }
        if overwrite:
            _make_room(directory, stage)
        _agree(directory, request)
        opened = StageDirectory(directory, request, fresh=fresh)
        if not opened.complete:
            opened.write_json(REQUEST, request)
        yield opened
    finally:
        os.close(descriptor)


def read_manifest(directory: Path, stage: str | None = None) -> dict[str, Any]:
    """The manifest of a finished stage directory, or a clear error."""
    if not directory.is_dir():
        raise BadRequest(f"{directory}: no such directory")
    path = directory / MANIFEST
    if not path.exists():
        unfinished = (directory / REQUEST).exists()
        hint = (
            "unfinished; run its command again to resume it" if unfinished else f"no {MANIFEST}; not made by discodvt"
        )
        raise BadRequest(f"{directory}: {hint}")
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if stage is not None and manifest["stage"] != stage:
        raise BadRequest(f"{directory}: made by `{manifest['stage']}`, expected the output of `{stage}`")
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


def _short_names(paths: Sequence[Path]) -> list[str]:
    """File names, with as many of their folders as it takes to tell them apart."""
    parts = [path.absolute().parts for path in paths]
    deepest = max(map(len, parts), default=1)
    for depth in range(1, deepest + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            break
    return names if parts else []


def _agree(directory: Path, request: dict[str, Any]) -> None:
    """Refuse a directory that holds anything but this very request, finished or not."""
    for name, state in ((MANIFEST, "a finished"), (REQUEST, "an unfinished")):
        path = directory / name
        if not path.exists():
            continue
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise BadRequest(f"{path}: not readable as JSON; delete {directory} and run again") from None
        changed = [key for key in ("stage", "config", "inputs") if held.get(key) != request[key]]
        if changed:
            raise BadRequest(
                f"{directory}: holds {state} `{held.get('stage')}` with another {' and '.join(changed)}; "
                "choose another directory, or replace it with `overwrite`",
                parameter="overwrite",
            )
        return
    if any(path.name not in (REQUEST + TEMPORARY, REPLACED) for path in directory.iterdir()):
        raise BadRequest(f"{directory}: not empty and not made by discodvt; choose another directory")


def _make_room(directory: Path, stage: str) -> None:
    """Set aside a finished work, clear an unfinished one; never touch what this stage of this program did not make."""
    finished = (directory / MANIFEST).exists()
    if not finished and not (directory / REQUEST).exists() and any(directory.iterdir()):
        raise BadRequest(f"{directory}: not made by discodvt, will not overwrite it; choose another directory")
    made_by = read_manifest(directory)["stage"] if finished else stage
    if made_by != stage:
        raise BadRequest(f"{directory}: made by `{made_by}`, `{stage}` will not overwrite it; choose another directory")
    if finished:
        _set_aside(directory)
    else:
        _clear(directory)


def _clear(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name != REPLACED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _set_aside(directory: Path) -> None:
    """Keep a finished work inside its directory; its manifest goes first, so that no half is taken for whole."""
    kept = directory / REPLACED
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    (directory / MANIFEST).rename(kept / MANIFEST)
    for path in directory.iterdir():
        if path != kept:
            path.rename(kept / path.name)


def _bring_back(directory: Path) -> None:
    kept = directory / REPLACED
    if kept.exists():
        for path in kept.iterdir():
            if path.name != MANIFEST:
                path.rename(directory / path.name)
        (kept / MANIFEST).rename(directory / MANIFEST)
        kept.rmdir()


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
