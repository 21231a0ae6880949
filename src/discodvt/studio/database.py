"""The SQLite file of projects: its schema, how it is opened, and which server owns the drafts in it.

A version is never changed or removed; triggers see to that. A draft is a story in the making, written again every
second, so that a server that is killed leaves it behind. Each server holds a lock file while it lives, and the system
frees it when the process dies: drafts whose owner's lock is free belong to nobody any more.
"""

import os
import secrets
import sqlite3
from pathlib import Path

from filelock import FileLock, Timeout

from discodvt.errors import BadRequest

NAME = "projects.sqlite3"
BUSY_SECONDS = 10.0
_SCHEMAS = (  # what each format adds to the one before
    """
CREATE TABLE projects (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, head TEXT, tip TEXT, revision INTEGER NOT NULL DEFAULT 0,
  hidden INTEGER NOT NULL DEFAULT 0, created REAL NOT NULL, changed REAL NOT NULL
);
CREATE TABLE versions (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, project TEXT NOT NULL REFERENCES projects (id),
  parent TEXT REFERENCES versions (id), action TEXT NOT NULL, record TEXT NOT NULL, created REAL NOT NULL
);
CREATE INDEX versions_of_project ON versions (project, number);
CREATE TRIGGER versions_stay BEFORE DELETE ON versions BEGIN SELECT RAISE(ABORT, 'versions are never removed'); END;
CREATE TRIGGER versions_are_final BEFORE UPDATE ON versions BEGIN SELECT RAISE(ABORT, 'versions never change'); END;
""",
    """
CREATE TABLE drafts (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, project TEXT NOT NULL REFERENCES projects (id), parent TEXT,
  action TEXT NOT NULL, record TEXT NOT NULL
);
""",
)


def data_directory() -> Path:
    """Where projects are kept unless another place is given: the user's data directory of the platform."""
    if os.name == "nt":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "discodvt"


def open_database(directory: Path) -> sqlite3.Connection:
    """The file of a data directory, made or brought to the present format; only its owner may read it."""
    path = directory / NAME
    try:
        directory.mkdir(0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite's own files beside it get the same mode
    except OSError as error:
        raise BadRequest(f"`data` {directory}: {error.strerror}; give a directory to write in", "data") from None
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("BEGIN IMMEDIATE")
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        for schema in _SCHEMAS[found:]:
            for statement in schema.strip().split(";\n"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {max(found, len(_SCHEMAS))}")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        raise BadRequest(f"{path}: no projects of discodvt ({error}); give another `data` directory", "data") from None
    if found > len(_SCHEMAS):
        connection.close()
        raise BadRequest(f"{path}: written by a newer discodvt; update, or give another `data` directory", "data")
    return connection


class Owner:
    """A server of a data directory, known by the lock it holds. Make it in a transaction: one at a time begins."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.name = directory, secrets.token_hex(8)
        for path in directory.glob("server-*.lock"):
            self.outlived(path.stem.removeprefix("server-"))
        self._lock = FileLock(self._path(self.name), mode=0o600, thread_local=False)
        self._lock.acquire()

    def close(self) -> None:
        self._lock.release()
        self._path(self.name).unlink(missing_ok=True)

    def outlived(self, name: str) -> bool:
        """Whether another owner is no more; its lock file is removed then."""
        if name == self.name:
            return False
        try:
            with FileLock(self._path(name), mode=0o600, timeout=0):
                pass
        except Timeout:
            return False
        self._path(name).unlink(missing_ok=True)
        return True

    def _path(self, name: str) -> Path:
        return self.directory / f"server-{name}.lock"
