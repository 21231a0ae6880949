"""Projects: versions of stories in SQLite, as trees that only grow.

A version is a story, how it came to be (`action`) and the version it came from. It is committed before anybody hears of
it, and never changed or removed (triggers of the database see to that); undo and redo only move the project's `head`.
A story in the making is a draft, which the next server to open the file makes a version of if this one dies.
The `tip` is the end of the path that was visited last, the way redo goes. `revision` counts the moves of the head, so
that of two tabs the one that knows an old head is told so.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any

from discodvt.studio.database import Owner, open_database
from discodvt.web.access import HttpError

STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Version:
    """A story and how it came to be; `record` is the story's JSON with what else is known of it."""

    id: str
    parent: str | None
    action: dict[str, Any]
    record: dict[str, Any]
    created: float

    def summary(self) -> dict[str, Any]:
        """What a tree shows of it."""
        text = self.record["story"]
        return {
            "id": self.id, "parent": self.parent, "action": self.action, "created": self.created,
            "group": self.record.get("group"), "words": len(text.split()), "prompt": self.record["prompt"][:80],
            "finish": self.record["finish"], "scores": self.record.get("scores"), "wish": self.record.get("wish"),
        }  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        told = {"id": self.id, "parent": self.parent, "action": self.action, "created": self.created}
        return {**self.record, **told}


@dataclass(frozen=True, slots=True)
class Project:
    """A tree of versions; `versions` by id, in the order in which they came."""

    id: str
    title: str
    head: str | None
    tip: str | None
    revision: int
    versions: Mapping[str, Version]

    def version(self, id: str) -> Version:
        if id not in self.versions:
            raise HttpError(404, "no such version in this project", param="version")
        return self.versions[id]

    @property
    def undo(self) -> str | None:
        """Where undo leads: to what the head came from."""
        return self.version(self.head).parent if self.head else None

    @property
    def redo(self) -> str | None:
        """Where redo leads: along the path visited last, or to the newest version made from the head."""
        at = self.tip
        while at is not None:
            parent = self.version(at).parent
            if parent == self.head:
                return at
            at = parent
        made = [version.id for version in self.versions.values() if version.parent == self.head]
        return made[-1] if made else None

    def as_json(self) -> dict[str, Any]:
        head = self.version(self.head).as_json() if self.head else None
        return {
            "id": self.id, "title": self.title, "head": head, "revision": self.revision, "undo": self.undo,
            "redo": self.redo, "versions": [version.summary() for version in self.versions.values()],
        }  # fmt: skip


class Projects:
    """The projects of a data directory; several servers may share it."""

    def __init__(self, directory: Path) -> None:
        self._lock = RLock()
        self._connection = open_database(directory)
        with self._changing():
            self._owner = Owner(directory)
        self._adopt()

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            self._owner.close()

    def listing(self) -> list[dict[str, Any]]:
        """Projects that are not hidden, the one changed last first."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT p.id, p.title, p.changed, COUNT(v.id) AS versions FROM projects p "
                "LEFT JOIN versions v ON v.project = p.id WHERE NOT p.hidden GROUP BY p.id "
                "ORDER BY p.changed DESC, p.rowid DESC"
            ).fetchall()
        return [dict(row) for row in rows]

    def new(self, title: str = "") -> Project:
        id, now = secrets.token_urlsafe(12), time.time()
        with self._changing() as connection:
            connection.execute(
                "INSERT INTO projects (id, title, created, changed) VALUES (?, ?, ?, ?)", (id, title, now, now)
            )
        return self.get(id)

    def get(self, id: str) -> Project:
        with self._lock:
            row = self._connection.execute("SELECT * FROM projects WHERE id = ? AND NOT hidden", (id,)).fetchone()
            if row is None:
                raise HttpError(404, "no such project", param="project")
            found = self._connection.execute("SELECT * FROM versions WHERE project = ? ORDER BY number", (id,))
            versions = {
                each["id"]: Version(
                    each["id"], each["parent"], json.loads(each["action"]), json.loads(each["record"]), each["created"]
                )
                for each in found
            }
        return Project(id, row["title"], row["head"], row["tip"], row["revision"], versions)

    def add(
        self,
        id: str,
        parent: str | None,
        action: Mapping[str, Any],
        record: Mapping[str, Any],
        *,
        draft: str | None = None,
    ) -> str:
        """Commit a version, in the place of its draft if it has one, and return its id; the head stays where it is."""
        version, now = secrets.token_urlsafe(12), time.time()
        told = [json.dumps(each, ensure_ascii=False) for each in (action, record)]
        with self._changing() as connection:
            project = self.get(id)
            if parent is not None:
                project.version(parent)
            connection.execute(
                "INSERT INTO versions (id, project, parent, action, record, created) VALUES (?, ?, ?, ?, ?, ?)",
                (version, id, parent, *told, now),
            )
            title = project.title or str(record["prompt"])[:80]
            connection.execute("UPDATE projects SET title = ?, changed = ? WHERE id = ?", (title, now, id))
            connection.execute("DELETE FROM drafts WHERE id = ?", (draft,))
        return version

    def keep_draft(
        self, draft: str, id: str, parent: str | None, action: Mapping[str, Any], record: Mapping[str, Any]
    ) -> None:
        """Keep a story in the making: where this server dies it becomes a version, as far as it came."""
        told = [json.dumps(each, ensure_ascii=False) for each in (action, record)]
        with self._changing() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO drafts (id, owner, project, parent, action, record) VALUES (?, ?, ?, ?, ?, ?)",
                (draft, self._owner.name, id, parent, *told),
            )

    def _adopt(self) -> None:
        """What servers that are no more were writing becomes versions."""
        with self._lock:
            left = self._connection.execute(
                "SELECT d.* FROM drafts d JOIN projects p ON p.id = d.project WHERE NOT p.hidden ORDER BY d.id"
            ).fetchall()
            outlived = {owner for owner in {row["owner"] for row in left} if self._owner.outlived(owner)}
            for row in left:
                if row["owner"] in outlived and self._claim(row["id"], row["owner"]):
                    record = json.loads(row["record"]) | {"finish": STOPPED}
                    action = json.loads(row["action"])
                    version = self.add(row["project"], row["parent"], action, record, draft=row["id"])
                    self.follow(row["project"], row["parent"], version)

    def _claim(self, draft: str, owner: str) -> bool:
        """Make a draft ours; of two servers that start at the same time one does."""
        asked = "UPDATE drafts SET owner = ? WHERE id = ? AND owner = ?"
        return self._connection.execute(asked, (self._owner.name, draft, owner)).rowcount == 1

    def move(self, id: str, version: str | None, *, revision: int | None = None) -> Project:
        """Make a version the head (None: the beginning, before any); with `revision` only if no one moved it since."""
        with self._changing() as connection:
            project = self.get(id)
            if version is not None:
                project.version(version)
            if revision is not None and revision != project.revision:
                raise HttpError(412, "the project was changed elsewhere; load it again", param="if-match")
            tip = project.tip if version in _path(project, project.tip) else version
            connection.execute(
                "UPDATE projects SET head = ?, tip = ?, revision = revision + 1, changed = ? WHERE id = ?",
                (version, tip, time.time(), id),
            )
        return self.get(id)

    def follow(self, id: str, parent: str | None, version: str) -> Project:
        """Move the head on to a version made from it; where the head went elsewhere meanwhile it stays there."""
        with self._lock:
            project = self.get(id)
            return self.move(id, version) if project.head == parent else project

    def rename(self, id: str, title: str) -> Project:
        with self._changing() as connection:
            self.get(id)
            connection.execute("UPDATE projects SET title = ? WHERE id = ?", (title, id))
        return self.get(id)

    def hide(self, id: str) -> None:
        """Take a project out of sight; its versions stay in the file."""
        with self._changing() as connection:
            self.get(id)
            connection.execute("UPDATE projects SET hidden = 1 WHERE id = ?", (id,))

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when it ends without an error."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _path(project: Project, version: str | None) -> list[str | None]:
    """A version and all it came from, down to the beginning (None)."""
    found = [version]
    while version is not None:
        version = project.version(version).parent
        found.append(version)
    return found
