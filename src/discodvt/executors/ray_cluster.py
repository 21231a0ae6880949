"""Shards on a Ray cluster (extra `ray`): the one at an address, the one that runs here, or one started for the run.

Every node needs this package with the libraries of the same versions as here, and sees the files of the run under the
same paths. Results come back through the object store, a few at a time, and are written by the process that asked.
"""

import logging
import math
import os
import pickle
import socket
from collections.abc import Callable, Mapping
from typing import Any

from discodvt.errors import BadRequest, WorkFailed, first_line
from discodvt.executors.local import environment
from discodvt.resumable import library_versions

SECONDS_TO_ANSWER = 5.0
AHEAD = 2  # tasks under way for each that can run: the next is there when one ends
_RAY_NAMES = {"cpus": "CPU", "gpus": "GPU", "memory": "memory"}
_SETTINGS = {  # of a cluster that is started for a run, where the environment says nothing else
    "RAY_worker_niceness": "0",  # Ray's 15 gives way to all else
    "RAY_enable_metrics_collection": "0",  # without a dashboard nobody reads them
    "RAY_task_events_report_interval_ms": "0",
}


class RayCluster:
    """A connection to a cluster. A task that is lost with its node comes back as an error, and is run again by us."""

    def __init__(self, address: str | None, *, workers: int | None, resources: Mapping[str, float]) -> None:
        try:
            import ray
        except ImportError:
            raise BadRequest("Ray is not installed; pip install 'discodvt[ray]'") from None
        if address is not None and address != "auto":
            _knock(address)
        self._ray: Any = ray
        self._workers = workers
        self._need = {"cpus": 1.0} | dict(resources)
        try:
            self._own = self._join_or_start(address)
        except Exception as error:  # Ray's own, Python's, and bare ones: a node that takes long to start
            what = f"ray:{address}: cannot join the cluster" if address else "ray: cannot join or start a cluster"
            raise BadRequest(f"`on` {what} ({first_line(error)})", parameter="on") from None
        _keep_off_our_output(ray)
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

    def _join_or_start(self, address: str | None) -> bool:
        """Whether a cluster was started, with our settings; one that was running keeps its own."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do, without a warning today
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if address is None and not os.environ.get("RAY_ADDRESS"):
            with environment({name: value for name, value in _SETTINGS.items() if name not in os.environ}):
                try:
                    self._ray.init(num_cpus=self._cores(), resources={}, include_dashboard=False, **quiet)
                    return True
                except ValueError:  # one runs here, to which Ray takes no resources, not even {}
                    pass
        self._ray.init(address=address, **quiet)
        return False

    def _cores(self) -> int | None:
        """Of a cluster of our own: no more than its workers need, which Ray starts all at once."""
        if self._workers is None:
            return None
        return max(1, min(os.cpu_count() or 1, math.ceil(self._workers * self._need["cpus"])))

    @property
    def slots(self) -> int:
        """What the cluster has room for now (nodes come and go) and as many in line; with `workers` none in line where
        the cluster would run them."""
        if self._workers is not None and not (self._own and self._need["cpus"]):
            return self._workers
        room = max(self._room(), 1)
        return AHEAD * room if self._workers is None or room <= self._workers else self._workers

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


def _keep_off_our_output(ray: Any) -> None:
    """Ray tells of lost nodes on standard output, which is for results; what it means for a shard is the task's error.

    There is no setting for it: `log_to_driver` is about the output of workers.
    """
    worker = ray._private.worker
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


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


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
