"""Shards on this machine: one after the other in this process, or in worker processes."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from discodvt.errors import DiscoError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class LostWorker(Exception):
    """The process that ran a shard is gone."""


class ThisProcess:
    """One shard at a time, here."""

    slots = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[[], Any]]] = []

    def start(self, ticket: int, task: Callable[[], Any]) -> None:
        self._waiting.append((ticket, task))

    def finished(self) -> list[tuple[int, Any]]:
        ticket, task = self._waiting.pop()
        try:
            return [(ticket, task())]
        except Exception as error:  # what becomes of it is for `run_shards` to say
            return [(ticket, error)]

    def close(self) -> None:
        pass


class LocalProcesses:
    """A pool of one process for each worker, so that a process that dies is known to have died of its shard."""

    def __init__(self, workers: int) -> None:
        self.slots = workers
        self._idle: list[ProcessPoolExecutor] = []
        self._running: dict[Future[Any], tuple[int, ProcessPoolExecutor]] = {}

    def start(self, ticket: int, task: Callable[[], Any]) -> None:
        pool = self._idle.pop() if self._idle else _new_pool()
        with _for_workers():  # the first task starts the process
            try:
                self._running[pool.submit(task)] = ticket, pool
            except BrokenProcessPool:  # died while idle
                pool = _new_pool()
                self._running[pool.submit(task)] = ticket, pool

    def finished(self) -> list[tuple[int, Any]]:
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        outcomes: list[tuple[int, Any]] = []
        for future in done:
            ticket, pool = self._running.pop(future)
            error = future.exception()
            if isinstance(error, BrokenProcessPool):
                pool.shutdown(wait=False)
                outcomes.append((ticket, LostWorker("its worker process died (out of memory?)")))
                continue
            self._idle.append(pool)
            if error is not None and not isinstance(error, Exception | DiscoError):
                raise error
            outcomes.append((ticket, future.result() if error is None else error))
        return outcomes

    def close(self) -> None:
        for pool in (*self._idle, *(pool for _, pool in self._running.values())):
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in (*self._idle, *(pool for _, pool in self._running.values())):
            pool.shutdown()


def _new_pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),))


@contextmanager
def _for_workers() -> Iterator[None]:
    """What workers take over when they start: one thread of linear algebra each, and Ctrl-C blocked.

    They share the cores between them; an interrupt of the terminal reaches them too, but their parent answers it.
    """
    masked = hasattr(signal, "pthread_sigmask")  # not on Windows
    if masked:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with environment(dict.fromkeys(THREADS, "1")):
            yield
    finally:
        if masked:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables that processes started in the block take over."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone, however it went."""
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
