"""Where files are: local paths, and `s3://`, `gs://` and `hdfs://` URIs, which are read and written through Arrow.

`locate` makes a path of what a user typed. A local one is a `pathlib.Path` and nothing else. A URI becomes a
`RemotePath`: a `Path` whose operations go to the store, so that a stage need not know where it reads and writes. It is
read as a stream, in ranges; it is written in one piece, from bytes or from a file of this machine (`upload`), so that
an object is there whole or not at all. Libraries that open files by name cannot be handed one: that is refused.

S3 takes its credentials, region and endpoint as the AWS tools do (`AWS_PROFILE`, `AWS_ENDPOINT_URL`, ...), Google those
of `gcloud`, HDFS those of the Hadoop installation. Every request is tried several times.
"""

import atexit
import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from discodvt.errors import BadRequest, WorkFailed

SCHEMES = ("s3", "gs", "hdfs")
TRIES = 9  # of a request, each after twice the wait
SECONDS_OF_TRIES = 13  # in all
BLOCK = 1 << 20  # bytes read ahead
REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "PERMISSION", "403")

if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # that of this system: `Path` itself takes no subclasses before Python 3.12


def locate(path: str | Path) -> Path:
    """The path a user means: a URI of a store we know is a `RemotePath`, all else is local."""
    scheme, colon, rest = str(path).partition(":")
    return RemotePath(path) if colon and scheme in SCHEMES and rest[:1] in ("/", "\\") else Path(path)


class RemotePath(_Path):
    """A file or folder of a store; folders are there where a file lies in them."""

    def __str__(self) -> str:
        return f"{self.parts[0]}//{'/'.join(self.parts[1:])}"

    def __fspath__(self) -> str:
        raise BadRequest(f"{self}: only a local path will do here; copy it to this machine, or from it")

    @property
    def scheme(self) -> str:
        return self.parts[0].removesuffix(":")

    @property
    def bucket(self) -> str:
        """The bucket, or the name node of HDFS."""
        if len(self.parts) < 2:
            raise BadRequest(f"{self}: no bucket; expected {self.scheme}://BUCKET/PATH")
        return self.parts[1]

    @property
    def key(self) -> str:
        """The path within the bucket."""
        return "/".join(self.parts[2:])

    @property
    def _name(self) -> str:
        """The path as its file system takes it."""
        return f"/{self.key}" if self.scheme == "hdfs" else f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def _store(self) -> Any:
        return _connect(self.scheme, self.bucket)

    def _info(self) -> Any:
        with _one_line_errors(self):
            return self._store.get_file_info(self._name)

    def exists(self, **_: Any) -> bool:
        return bool(self._info().type.name != "NotFound")

    def is_file(self, **_: Any) -> bool:
        return bool(self._info().is_file)

    def is_dir(self, **_: Any) -> bool:
        return bool(self._info().type.name == "Directory")

    def stat(self, **_: Any) -> os.stat_result:
        """Kind and size; all else is 0."""
        info = self._info()
        if info.type.name == "NotFound":
            self._missing()
        kind = stat.S_IFREG if info.is_file else stat.S_IFDIR
        return os.stat_result((kind, 0, 0, 0, 0, 0, info.size or 0, 0, 0, 0))

    def open(self, mode: str = "r", *_: Any, **text: Any) -> IO[Any]:  # type: ignore[override]
        """For reading; what is written goes through `write_bytes` and `upload`."""
        if set(mode) - set("rbt"):
            raise BadRequest(f"{self}: a store takes whole files; it cannot be opened for writing in place")
        binary = io.BufferedReader(cast(Any, _Guarded(self)), BLOCK)
        return binary if "b" in mode else io.TextIOWrapper(binary, **text)

    def write_bytes(self, data: Any) -> int:
        with _one_line_errors(self):
            stream = self._store.open_output_stream(self._name, compression=None)
            stream.write(data)
            stream.close()
        return len(data)

    def write_text(self, data: str, *_: Any, **__: Any) -> int:
        return self.write_bytes(data.encode())

    def iterdir(self) -> Generator["RemotePath", None, None]:
        yield from self._listed(recursive=False)

    def glob(self, pattern: str, **_: Any) -> Iterator["RemotePath"]:  # type: ignore[override]
        return (path for path in self._listed(recursive=False) if fnmatch(path.name, pattern))

    def rglob(self, pattern: str, **_: Any) -> Iterator["RemotePath"]:  # type: ignore[override]
        return (path for path in self._listed(recursive=True) if fnmatch(path.name, pattern))

    def files(self) -> list["RemotePath"]:
        """All files below it, by one request, where a look at each would be one more."""
        return self._listed(recursive=True, files_only=True)

    def _listed(self, *, recursive: bool, files_only: bool = False) -> list["RemotePath"]:
        from pyarrow.fs import FileSelector

        with _one_line_errors(self):
            chosen = FileSelector(self._name, allow_not_found=True, recursive=recursive)
            skip = len(self._name.strip("/"))
            infos = (info for info in self._store.get_file_info(chosen) if info.is_file or not files_only)
            return [self / info.path.strip("/")[skip:].lstrip("/") for info in infos]

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Nothing: a folder is there with its first file."""

    def rmdir(self) -> None:
        if self._listed(recursive=False):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(self))
        remove(self)

    def unlink(self, missing_ok: bool = False) -> None:
        if self.is_file():
            with _one_line_errors(self):
                self._store.delete_file(self._name)
        elif not missing_ok:
            self._missing()

    def replace(self, target: Any) -> "RemotePath":
        """Move a file, or the files of a folder one by one; a store copies and deletes."""
        for path in [self] if self.is_file() else self.files():
            to = target.joinpath(*path.parts[len(self.parts) :])
            with _one_line_errors(path):
                self._store.move(path._name, to._name)
        if self.is_dir():
            remove(self)
        return cast(RemotePath, target)

    def absolute(self) -> "RemotePath":
        return self

    def resolve(self, strict: bool = False) -> "RemotePath":
        return self

    def expanduser(self) -> "RemotePath":
        return self

    def _missing(self) -> NoReturn:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))


class _Guarded(io.RawIOBase):
    """A file of a store, open for reading; what goes wrong is one line."""

    def __init__(self, path: RemotePath) -> None:
        self._path = path
        with _one_line_errors(path):
            self._file = path._store.open_input_file(path._name)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _one_line_errors(self._path):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


def open_for_arrow(path: Path) -> Any:
    """A file as Arrow reads it, in ranges; from this machine by a name of any bytes."""
    if isinstance(path, RemotePath):
        return path.open("rb")
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path))


def upload(local: Path, target: RemotePath) -> None:
    """Put a local file at `target`, a block at a time; it is there when all of it is."""
    with local.open("rb") as file, _one_line_errors(target):
        stream = target._store.open_output_stream(target._name, compression=None)
        while block := file.read(8 * BLOCK):
            stream.write(block)
        stream.close()


def upload_folder(local: Path, target: RemotePath) -> None:
    """The files of a local folder, each as `upload` does."""
    for path in sorted(local.rglob("*")):
        if path.is_file():
            upload(path, target.joinpath(*path.relative_to(local).parts))


@cache
def local_copy(folder: RemotePath) -> Path:
    """A folder of a store on this machine, for what opens files by name (checkpoints); fetched once a process."""
    place = Path(tempfile.mkdtemp(prefix="discodvt-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for path in folder.files():
        here = place.joinpath(folder.name, *path.parts[len(folder.parts) :])
        here.parent.mkdir(parents=True, exist_ok=True)
        with path.open("rb") as file, here.open("wb") as kept:
            shutil.copyfileobj(cast(BinaryIO, file), kept, 8 * BLOCK)
    return place / folder.name


def remove(path: Path) -> None:
    """A file or a folder with all that is in it, wherever it is; nothing where there is none."""
    if isinstance(path, RemotePath):
        with _one_line_errors(path):
            kind = path._info().type.name
            if kind == "Directory":
                with suppress(FileNotFoundError):  # of Google's store: all is gone, and the folder itself is no object
                    path._store.delete_dir(path._name)
            elif kind == "File":
                path._store.delete_file(path._name)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@cache
def _connect(scheme: str, bucket: str) -> Any:
    """The file system of a bucket, which must be there."""
    from pyarrow import fs

    where = RemotePath(f"{scheme}://{bucket}")
    with _one_line_errors(where):
        if scheme == "hdfs":
            host, _, port = bucket.partition(":")
            return fs.HadoopFileSystem(host, int(port or 8020))
        if scheme == "gs":
            emulated = "CLOUD_STORAGE_EMULATOR_ENDPOINT" in os.environ  # Google's own variable; takes no credentials
            limit = timedelta(seconds=SECONDS_OF_TRIES)  # else Google's library tries for a quarter of an hour
            store: Any = fs.GcsFileSystem(anonymous=emulated, retry_time_limit=limit)
        else:
            _check_credentials(where)
            endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            store = fs.S3FileSystem(
                endpoint_override=endpoint,
                allow_delayed_open=True,  # one request for a small object
                background_writes=False,
                retry_strategy=fs.AwsDefaultS3RetryStrategy(max_attempts=TRIES),
            )
        if store.get_file_info(bucket).type.name == "NotFound":
            raise BadRequest(f"{where}: no such bucket; create it, or check the name")
        return store


def s3_client() -> Any:
    """For what Arrow cannot ask of S3."""
    import boto3
    from botocore.config import Config

    return boto3.client("s3", config=Config(retries={"max_attempts": TRIES, "mode": "standard"}))


def _check_credentials(where: RemotePath) -> None:
    try:
        import boto3
    except ImportError:
        raise BadRequest(f"{where}: S3 needs the extra `cloud`; pip install 'discodvt[cloud]'") from None
    if boto3.Session().get_credentials() is None:
        raise BadRequest(f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")


@contextmanager
def _one_line_errors(path: RemotePath) -> Iterator[None]:
    """What Arrow raises, as ours: what is not there stays a `FileNotFoundError`."""
    try:
        yield
    except FileNotFoundError:
        path._missing()
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        if "NO_SUCH_BUCKET" in reason:
            raise BadRequest(f"{path}: no such bucket; create it, or check the name") from None
        if any(word in reason.upper() for word in REFUSED):
            raise BadRequest(f"{path}: access refused ({reason}); check the credentials and what they allow") from None
        if path.scheme == "gs" and "OAuth2 access token" in reason:
            raise BadRequest(
                f"{path}: no credentials, or Google does not answer; run `gcloud auth application-default login`, "
                "or set GOOGLE_APPLICATION_CREDENTIALS"
            ) from None
        if path.scheme == "hdfs" and ("libhdfs" in reason or "libjvm" in reason):
            raise BadRequest(f"{path}: no Hadoop client here ({reason}); set JAVA_HOME and HADOOP_HOME") from None
        tried = f"for {SECONDS_OF_TRIES} seconds" if path.scheme == "gs" else f"{TRIES} times"
        raise WorkFailed(f"{path}: the store failed {tried} ({reason}); the same command goes on") from None
