"""Results kept on the way: an executor for stages whose shards leave no file of their own (`evaluate`).

What another executor has done is written as JSON into a folder of the stage, under the hash of the task: its function
and all it was given. A run that was killed finds there what is done already; so does one that asks for it twice.
"""

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from discodvt.executors.shards import Executor
from discodvt.resumable import replacing


class KeptResults:
    """Runs with `executor` what is not in `folder` yet. Results are what JSON can hold."""

    def __init__(self, executor: Executor, folder: Path) -> None:
        self._executor, self._folder = executor, folder
        folder.mkdir(exist_ok=True)
        self._there = {path.name for path in folder.glob("*.json")}  # in a store a look at each is a request
        self._ready: list[tuple[int, Any]] = []
        self._names: dict[int, str] = {}  # of what is under way

    @property
    def slots(self) -> int:
        return self._executor.slots

    def start(self, ticket: int, task: Callable[[], Any]) -> None:
        name = hashlib.sha256(pickle.dumps(task)).hexdigest()[:32] + ".json"
        if name in self._there:
            self._ready.append((ticket, json.loads((self._folder / name).read_bytes())))
        else:
            self._names[ticket] = name
            self._executor.start(ticket, task)

    def finished(self) -> list[tuple[int, Any]]:
        if self._ready:
            ready, self._ready = self._ready, []
            return ready
        outcomes = self._executor.finished()
        for ticket, outcome in outcomes:
            name = self._names.pop(ticket)
            if not isinstance(outcome, Exception):
                with replacing(self._folder / name) as path:
                    path.write_text(json.dumps(outcome), encoding="utf-8")
                self._there.add(name)
        return outcomes

    def close(self) -> None:
        self._executor.close()
