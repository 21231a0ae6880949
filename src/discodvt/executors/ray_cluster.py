"""Shards on a Ray cluster (extra `ray`): the one at an address, the one that runs here, or one started for the run.

Every node needs this package with the libraries of the same versions as here, and sees the files of the run under the
same paths. Results come back through the object store, a few at a time, and are written by the process that asked.
"""

import logging
import os
import pickle
import socket
from collections.abc import Callable, Mapping
from typing import Any

from discodvt.errors import BadRequest, WorkFailed
from discodvt.resumable import library_versions

SECONDS_TO_ANSWER = 5.0
AHEAD = 2  # tasks under way for each that can run: the next is there when one ends
_RAY_NAMES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}


class RayCluster:
    """A connection to a cluster. A task that is lost with its node comes back as an error, and is run again by us."""

    def __init__(self, address: str | None, *, workers: int | None, resources: Mapping[str, float]) -> None:
        try:
            import ray
        except ImportError:
            raise BadRequest("Ray is not installed; pip install 'discodvt[ray]'") from None
        if address is not None and address != "auto":
            _knock(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_worker_niceness", "0")  # of a cluster started here; Ray's 15 gives way to all else
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do, without a warning today
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, include_dashboard=None)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            place = f"ray:{address}" if address else "ray"
            raise BadRequest(f"`on` {place}: cannot join the cluster ({_first_line(error)})", parameter="on") from None
        self._ray: Any = ray
        self._workers = workers
        self._need = {"cpus": 1.0} | dict(resources)
        self._running: dict[Any, int] = {}
        own = {name: amount for name, amount in self._need.items() if name not in _RAY_NAMES}
        options: dict[str, Any] = {"num_cpus": self._need["cpus"], "num_gpus": self._need.get("gpus", 0)}
        options |= {"memory": self._need["memory"]} if "memory" in self._need else {}
        self._remote: Any = ray.remote(max_retries=0, resources=own, **options)(_attempt)
        self._versions = library_versions()
        if self._room() == 0:
            wanted = ",".join(f"{name}={amount:g}" for name, amount in self._need.items())
            self.close()
            raise BadRequest(f"`resources` {wanted}: the Ray cluster has no room for one such task", "resources")

    @property
    def slots(self) -> int:
        """What the cluster has room for now: nodes come and go."""
        return self._workers or AHEAD * max(self._room(), 1)

    def _room(self) -> int:
        needed = {_RAY_NAMES.get(name, name): amount for name, amount in self._need.items() if amount}
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return sum(int(min((held.get(name, 0) / needed[name] for name in needed), default=1)) for held in alive)

    def start(self, ticket: int, task: Callable[[], Any]) -> None:
        self._running[self._remote.remote(self._versions, pickle.dumps(task))] = ticket

    def finished(self, seconds: float | None = None) -> list[tuple[int, Any]]:
        """As of every executor; with `seconds` perhaps none, after so long."""
        done, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(self._running.pop(reference), self._outcome(reference)) for reference in done]

    def _outcome(self, reference: Any) -> Any:
        from ray.exceptions import RayError, RayTaskError

        try:
            return self._ray.get(reference)
        except RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if isinstance(cause, ModuleNotFoundError) or "No module named" in str(cause):
                return WorkFailed(f"a node of the Ray cluster: {_last_line(cause)}; install discodvt on every node")
            return cause
        except RayError as error:  # a worker, its node or its result is lost
            return error

    def close(self) -> None:
        self._running.clear()
        self._ray.shutdown()


def _attempt(versions: dict[str, str], task: bytes) -> Any:
    """One shard on a node; `task` is unpickled after the check: it may not open with other versions."""
    here = library_versions()
    other = [
        f"{name} {here.get(name, 'missing')} there, {wanted} here"
        for name, wanted in versions.items()
        if here.get(name) != wanted
    ]
    if other:
        node = socket.gethostname()
        raise WorkFailed(f"Ray node {node}: {'; '.join(other)}; install the same versions on every node")
    return pickle.loads(task)()


def _knock(address: str) -> None:
    """Refuse an address nobody answers at: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_ANSWER):
            return
    except ValueError:
        raise BadRequest(f"`on` ray:{address}: expected ray:HOST:PORT", parameter="on") from None
    except OSError as error:
        raise BadRequest(
            f"`on` ray:{address}: no Ray cluster answers there ({error.strerror or error}); "
            "start one with `ray start --head`",
            parameter="on",
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
