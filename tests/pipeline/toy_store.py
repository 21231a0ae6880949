"""An S3 of this machine (moto's server) that can be made to fail, and what folders of a store hold."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pipeline.toy_corpus import contents

from discodvt.storage import RemotePath, locate

BUCKET = "stories"


class Store:
    """moto's server; every so many requests fail when asked to."""

    def __init__(self) -> None:
        moto_server = pytest.importorskip("moto.server", reason="needs moto's server")
        from werkzeug.serving import make_server

        self._client = pytest.importorskip("boto3", reason="needs the extra `cloud`").client
        self.application = moto_server.DomainDispatcherApplication(moto_server.create_backend_app)
        self.requests, self.fail_every = 0, 0
        self.server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        self.requests += 1
        if self.fail_every and self.requests % self.fail_every == 0:
            start("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self.application(environ, start)
        return answer

    def make_bucket(self) -> None:
        self._client("s3").create_bucket(Bucket=BUCKET)

    def put(self, local: Path, name: str) -> Path:
        self._client("s3").upload_file(str(local), BUCKET, name)
        return locate(f"s3://{BUCKET}/{name}")

    def put_all(self, directory: Path, name: str) -> Path:
        for path, content in contents(directory).items():
            self._client("s3").put_object(Bucket=BUCKET, Key=f"{name}/{path}", Body=content)
        return locate(f"s3://{BUCKET}/{name}")


def held(directory: Path) -> dict[str, bytes]:
    """What a folder of the store holds, but for the marks Arrow leaves of folders."""
    assert isinstance(directory, RemotePath)
    return {"/".join(path.parts[len(directory.parts) :]): path.read_bytes() for path in directory.files()}
