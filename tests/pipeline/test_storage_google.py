"""Stages from and to `gs://`, against an emulator of Google's store: the bytes of local files, and a killed run."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pipeline.test_generate import models  # noqa: F401 - a fixture
from pipeline.test_storage import stages  # noqa: F401 - a fixture
from pipeline.toy_corpus import contents, make_corpus
from pipeline.toy_store import held
from program import Started, refused, run

from discodvt import storage
from discodvt.storage import locate

pytest.importorskip("gcp_storage_emulator", reason="needs the emulator of Google's store")
pytestmark = pytest.mark.filterwarnings("ignore:.*has no lock:UserWarning")
SERVER = """
import sys
from gcp_storage_emulator.server import create_server

server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="stories")
server.start()
print(server._api._httpd.server_port, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[Path]:
    """The emulator in a process of its own: Arrow holds Python's lock while it opens a file of Google's."""
    command = [sys.executable, "-c", SERVER]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        patch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", f"http://127.0.0.1:{port}")
        storage._connect.cache_clear()
        yield locate("gs://stories")
        server.stdin.close()
    storage._connect.cache_clear()


def test_the_same_bytes_as_local(stages: tuple[Path, Callable[[Path, Path], None]], bucket: Path) -> None:  # noqa: F811
    local, run_all = stages
    (bucket / "raw" / "raw.jsonl").write_bytes((local / "raw.jsonl").read_bytes())
    run_all(bucket / "raw" / "raw.jsonl", bucket / "home")
    assert held(bucket / "home") == contents(local / "home")


def test_a_killed_annotation_is_resumed_and_replaced(bucket: Path, tmp_path: Path) -> None:
    corpus, out = make_corpus(tmp_path / "corpus", train=150), bucket / "killed" / "out"
    assert run("annotate", corpus, tmp_path / "out").returncode == 0
    assert Started(tmp_path / "log", "annotate", corpus, out, kill_at=2).end() == -signal.SIGKILL
    assert "manifest.json" not in held(out)
    assert len(held(out / "shards")) == 2  # of three
    assert run("annotate", corpus, out).returncode == 0
    assert held(out) == contents(tmp_path / "out")
    assert run("annotate", corpus, out, "--overwrite").returncode == 0
    assert held(out) == contents(tmp_path / "out")


def test_wrong_requests_are_one_line(bucket: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = make_corpus(tmp_path / "corpus", train=3)
    refused(run("annotate", corpus, "gs://nowhere/out"), "gs://nowhere: no such bucket; create it, or check the name")
    refused(run("annotate", bucket / "none", tmp_path / "out"), "gs://stories/none: no train.parquet")
    monkeypatch.delenv("CLOUD_STORAGE_EMULATOR_ENDPOINT")
    monkeypatch.setenv("HOME", str(tmp_path))  # no gcloud
    monkeypatch.setenv("GCE_METADATA_ROOT", "127.0.0.1:1")  # nor a machine of Google's
    monkeypatch.setattr(storage, "SECONDS_OF_TRIES", 1)
    storage._connect.cache_clear()
    refused(run("annotate", corpus, bucket / "out"), "no credentials, or Google does not answer; run `gcloud auth")
    storage._connect.cache_clear()
