"""Resumable output: where every stage writes, so that nothing half-written is ever taken for whole.

A stage writes a directory (`open_stage`) or a single file (`open_output_file`); both keep to one protocol:

| | in a directory | beside a file NAME |
|---|---|---|
| the request, from the first moment: stage, configuration, hashes of the inputs | `stage.json` | `NAME.stage.json` |
| the manifest, last: the request, versions, commit, facts of the work | `manifest.json` | `NAME.manifest.json` |
| the lock, while a run is at work | `.lock` | `NAME.lock` |
| what `overwrite` replaces, until the new work is complete | `.replaced/` | `NAME.replaced` |

In a store (`discodvt.storage`) the same files are objects, put whole; the lock is that of `discodvt.remote_lock`, and a
single file grows as parts in `NAME.parts/` that are joined when it is complete.

Output with a manifest is complete; without one it is resumed by the same request and refused to any other. Files of a
directory are written under a temporary name and renamed; a single file only grows. Nothing depends on the time of day,
so a resumed run ends in the same bytes. What was replaced comes back if the new request turns out to be wrong.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discodvt.errors import BadRequest
from discodvt.output_file import OutputFile, open_output_file
from discodvt.resumable import (
    LOCK,
    MANIFEST,
    REPLACED,
    REQUEST,
    TEMPORARY,
    ResumableOutput,
    locked,
    read_json,
    replacing,
    request_of,
    write_json,
)
from discodvt.storage import RemotePath, remove, upload_folder

__all__ = [
    "LOCK",
    "MANIFEST",
    "REPLACED",
    "REQUEST",
    "OutputFile",
    "StageDirectory",
    "StageFacts",
    "file_hash",
    "open_output_file",
    "open_stage",
    "read_manifest",
]


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

    @contextmanager
    def writing_folder(self, name: str = "") -> Iterator[Path]:
        """Yield a local folder for a library that writes several files; in a store they are put when the block ends."""
        final = self.directory / name
        if not isinstance(final, RemotePath):
            final.mkdir(parents=True, exist_ok=True)
            yield final
            return
        with tempfile.TemporaryDirectory(prefix="discodvt-") as place:
            yield Path(place)
            upload_folder(Path(place), final)

    def write_json(self, name: str, value: Any) -> None:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        write_json(self.directory / name, value)

    def abandon(self) -> None:
        super().abandon()
        self.unwanted = self._fresh

    def finish(self, **facts: Any) -> None:
        for stale in list(self.directory.rglob("*" + TEMPORARY)):
            remove(stale)
        super().finish(**facts)

    def _content(self) -> list[Path]:
        own = {MANIFEST, REQUEST, REQUEST + TEMPORARY, REPLACED}
        return [path for path in self.directory.iterdir() if path.name not in own and not path.name.startswith(LOCK)]

    def _aside(self, path: Path) -> Path:
        return self.directory / REPLACED / path.name

    def _kept(self) -> dict[Path, Path]:
        kept = (self.directory / REPLACED).iterdir()
        return {path: self.directory / path.name for path in kept if path.name != MANIFEST}

    def _forget_replaced(self) -> None:
        with suppress(OSError):
            remove(self.directory / REPLACED)


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
        with locked(opened):
            hashes = {name: file_hash(path) for name, path in zip(_short_names(inputs), inputs, strict=True)}
            request = request_of(stage, config) | {"inputs": hashes}
            opened.begin(request, overwrite=overwrite, may_change=may_change)
            yield opened
    finally:
        if opened.unwanted:
            with suppress(OSError):  # another run may be at work in it already
                directory.rmdir()


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
    manifest = read_json(directory / MANIFEST)
    if stage is not None and manifest.get("stage") != stage:
        raise BadRequest(f"{directory}: made by `{manifest.get('stage')}`, expected the output of `{stage}`")
    return manifest


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
