"""The lock of output in a store, where no operating system releases what a killed run held.

A lock is an object `NAME.000001` that its run writes anew every few seconds. Who finds one watches it: if it does not
change for a while, its run is dead, and the next number is taken. An object is only made where there is none
(`If-None-Match`), so that of two runs one takes a number; the run with the highest number holds the lock, and one that
was passed over (it slept too long) is told so when it next writes. No clock of two machines is compared.

S3 can do this. Through Arrow, Google's store and HDFS cannot: there two runs are not kept apart, and a warning says so.
"""

import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from discodvt.errors import BadRequest, DiscoError, WorkFailed
from discodvt.storage import RemotePath, s3_client

SECONDS_BETWEEN_SIGNS = 3.0
SECONDS_UNTIL_DEAD = 15.0


class RemoteLock:
    """A lock that is held; `check` fails when another run has taken it."""

    def __init__(self, path: RemotePath, number: int) -> None:
        self._path, self._number = path, number
        self._token, self._signs = uuid.uuid4().hex, 0
        self._released = threading.Event()
        self.lost = False
        self._thread = threading.Thread(target=self._sign, daemon=True)

    @property
    def _object(self) -> RemotePath:
        return _numbered(self._path, self._number)

    def take(self) -> bool:
        """Whether the number was free."""
        if not _create(self._object, self._token.encode()):
            return False
        self._thread.start()
        return True

    def _sign(self) -> None:
        while not self._released.wait(SECONDS_BETWEEN_SIGNS):
            self._signs += 1
            with suppress(DiscoError, OSError):  # the store is away; the work will meet that too
                if max(_numbers(self._path), default=0) != self._number:
                    self.lost = True
                    return
                self._object.write_bytes(f"{self._token} {self._signs}".encode())

    def check(self) -> None:
        if self.lost:
            raise WorkFailed(f"{self._path.parent}: another run took this one for dead and went on; it stops here")

    def release(self) -> None:
        self._released.set()
        self._thread.join()
        if not self.lost:
            for number in _numbers(self._path):
                _numbered(self._path, number).unlink(missing_ok=True)


@contextmanager
def held(path: RemotePath, what: str) -> Iterator[RemoteLock | None]:
    """Hold the lock at `path`; `what` it is for, in an error. None where the store has no lock."""
    if path.scheme != "s3":
        warnings.warn(f"{what}: {path.scheme}:// has no lock; see to it that no other run writes there", stacklevel=3)
        yield None
        return
    newest = max(_numbers(path), default=0)
    lock = RemoteLock(path, newest + 1)
    if (newest and _alive(_numbered(path, newest))) or not lock.take():
        raise BadRequest(f"{what}: in use by another run; wait for it or choose another output")
    try:
        yield lock
    finally:
        lock.release()


def _alive(lock: RemotePath) -> bool:
    """Whether a lock changes while it is watched; one that goes away was released."""
    seen, until = _content(lock), time.monotonic() + SECONDS_UNTIL_DEAD
    while time.monotonic() < until:
        time.sleep(SECONDS_BETWEEN_SIGNS / 3)
        now = _content(lock)
        if now != seen:
            return now is not None
    return False


def _content(lock: RemotePath) -> bytes | None:
    try:
        return lock.read_bytes()
    except FileNotFoundError:
        return None


def _create(path: RemotePath, content: bytes) -> bool:
    """Make an object where there is none; whether it was made."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        s3_client().put_object(Bucket=path.bucket, Key=path.key, Body=content, IfNoneMatch="*")
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code"))
        if code in ("PreconditionFailed", "ConditionalRequestConflict"):
            return path.read_bytes() == content  # a request that was answered too late is sent again
        kind = BadRequest if code in ("AccessDenied", "NoSuchBucket", "InvalidAccessKeyId") else WorkFailed
        raise kind(f"{path}: cannot be locked ({error})") from None
    except BotoCoreError as error:
        raise WorkFailed(f"{path}: cannot be locked ({error})") from None
    return True


def _numbers(path: RemotePath) -> list[int]:
    """The numbers that are taken, lowest first."""
    tails = (each.name.removeprefix(f"{path.name}.") for each in path.parent.iterdir())
    return sorted(int(tail) for tail in tails if tail.isdigit() and len(tail) == 6)


def _numbered(path: RemotePath, number: int) -> RemotePath:
    return path.with_name(f"{path.name}.{number:06d}")
