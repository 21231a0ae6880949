"""The file of stories that `discodvt generate` writes: JSONL, one record a story, in the order they were asked for.

At any moment the file is a beginning of the whole, so a killed run goes on after its last whole line and ends in the
same file. `NAME.stage.json` beside it says from the first moment what is being written; `NAME.manifest.json` takes its
place once every story is there. Another request for the same file is refused. The file is locked while it is written.
With `overwrite` finished stories are kept in `NAME.replaced` until the new ones are complete.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from discodvt.artefacts import TEMPORARY, provenance
from discodvt.errors import BadRequest
from discodvt.writing.story import Story


class StoriesFile:
    """An output file, locked by this process. `open_stories` makes it."""

    def __init__(self, path: Path, file: BinaryIO, request: dict[str, Any]) -> None:
        self.path = path
        self._file = file
        self._request = request
        self.held = 0  # stories that earlier runs of the same request left

    @property
    def complete(self) -> bool:
        return _manifest(self.path).exists()

    def add(self, story: Story) -> None:
        """Append a story; once this returns, a killed process does not lose it."""
        self._file.write(story.as_line().encode())
        self._file.flush()

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the file is complete from here on."""
        os.fsync(self._file.fileno())
        _write_json(_manifest(self.path), self._request | provenance() | {"facts": facts})
        _stage(self.path).unlink(missing_ok=True)
        _forget_replaced(self.path)


@contextmanager
def open_stories(
    path: Path, ids: Sequence[str], *, config: Mapping[str, Any], overwrite: bool = False
) -> Iterator[StoriesFile]:
    """Lock the file for the stories `ids` of the request `config`, and read what it already holds of them."""
    request = {"stage": "generate", "config": json.loads(json.dumps(dict(config)))}
    with _locked(path) as file:
        if _manifest(path).exists():
            _forget_replaced(path)
        elif not _stage(path).exists():
            _bring_back(path, file)
        if overwrite:
            _make_room(path, file)
        _agree(path, file, request)
        stories = StoriesFile(path, file, request)
        stories.held = _held(path, file, ids)
        if not stories.complete:
            _write_json(_stage(path), request)
        try:
            yield stories
        except BadRequest:  # after a wrong request an empty file is worth nothing
            if path.stat().st_size == 0:
                _stage(path).unlink(missing_ok=True)
                if not _bring_back(path, file):
                    path.unlink()
            raise


def read_stories(path: Path) -> Iterator[Story]:
    """Stream the stories of a file."""
    from discodvt.corpus.textfiles import read_lines

    for line in read_lines(path):
        if line.content.strip():
            yield Story.from_line(line.content, f"{path}:{line.number}")


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    if path.exists() and not path.is_file():
        raise BadRequest(f"{path}: not a file; give a file for --output, or --json for standard output")
    try:
        file = path.open("a+b")
    except OSError as error:
        raise BadRequest(f"{path}: cannot be written ({error.strerror}); give another file for --output") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRequest(f"{path}: in use by another run; wait for it or choose another file") from None
        yield file


def _agree(path: Path, file: BinaryIO, request: dict[str, Any]) -> None:
    """Refuse a file that holds anything but the stories of this very request."""
    notes = [note for note in (_manifest(path), _stage(path)) if note.exists()]
    if not notes:
        if os.fstat(file.fileno()).st_size:
            raise BadRequest(f"{path}: not empty and not written by `discodvt generate`; choose another file")
        return
    try:
        held = json.loads(notes[0].read_text(encoding="utf-8"))["config"]
    except (ValueError, TypeError, KeyError):
        raise BadRequest(f"{notes[0]}: not readable; delete it and {path.name}, and run again") from None
    asked = request["config"]
    changed = [name.replace("_", " ") for name in asked | held if held.get(name) != asked.get(name)]
    if changed:
        raise BadRequest(
            f"{path}: holds stories of another request (another {', '.join(changed)}); "
            "choose another file, or --overwrite it"
        )


def _held(path: Path, file: BinaryIO, ids: Sequence[str]) -> int:
    """How many stories the file holds: the first of `ids`. A last line torn by a kill is cut off."""
    held, whole = 0, 0  # stories, bytes
    file.seek(0)
    for line in file:
        if not line.endswith(b"\n"):
            file.truncate(whole)
            break
        place = f"{path}:{held + 1}"
        story = Story.from_line(line.decode("utf-8", errors="replace"), place)
        if held == len(ids) or story.id != ids[held]:
            raise BadRequest(f"{place}: story {story.id!r} is out of place; the file was changed, --overwrite it")
        held += 1
        whole += len(line)
    return held


def _make_room(path: Path, file: BinaryIO) -> None:
    """Set finished stories aside, drop unfinished ones; never touch a file this program did not write."""
    if _manifest(path).exists():
        replaced = _replaced(path)
        file.seek(0)
        with replaced.open("wb") as copy:
            shutil.copyfileobj(file, copy)
            os.fsync(copy.fileno())
        _manifest(path).rename(_manifest(replaced))
    elif not _stage(path).exists() and os.fstat(file.fileno()).st_size:
        raise BadRequest(f"{path}: not written by `discodvt generate`, will not overwrite it; choose another file")
    file.truncate(0)
    _stage(path).unlink(missing_ok=True)


def _bring_back(path: Path, file: BinaryIO) -> bool:
    """Put stories that were set aside back in their place; whether there were any."""
    replaced = _replaced(path)
    if not _manifest(replaced).exists():
        return False
    file.truncate(0)
    with replaced.open("rb") as copy:
        shutil.copyfileobj(copy, file)
    file.flush()
    _manifest(replaced).rename(_manifest(path))
    replaced.unlink()
    return True


def _forget_replaced(path: Path) -> None:
    replaced = _replaced(path)
    _manifest(replaced).unlink(missing_ok=True)
    replaced.unlink(missing_ok=True)


def _replaced(path: Path) -> Path:
    return path.with_name(path.name + ".replaced")


def _stage(path: Path) -> Path:
    return path.with_name(path.name + ".stage.json")


def _manifest(path: Path) -> Path:
    return path.with_name(path.name + ".manifest.json")


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_name(path.name + TEMPORARY)
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)
