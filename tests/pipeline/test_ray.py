"""Stages on a Ray cluster of this machine: a head and two worker nodes, each its own processes."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pipeline.test_annotate import annotate, contents, make_corpus, refused

pytest.importorskip("ray", reason="needs the extra `ray`")
if sys.platform == "win32":
    pytest.skip("the clusters of this test are started with POSIX signals", allow_module_level=True)

ENVIRONMENT = {  # of every process of the cluster; a token of its own keeps other clusters' out
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_server_request_timeout_seconds": "240",  # a busy machine takes its time
    "OMP_NUM_THREADS": "1",
}
LIMITS = ("--object-store-memory", str(80 << 20), "--disable-usage-stats", "--block")


class Cluster:
    """`ray start` for a head without CPUs and for nodes with one CPU each."""

    def __init__(self, place: str) -> None:
        self.place = Path(place)
        self.nodes: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.address = f"127.0.0.1:{port}"
        self._start("--head", "--port", port, "--num-cpus", "0", "--include-dashboard", "false", "--temp-dir", place)

    def add(self, **environment: str) -> None:
        self._start("--address", self.address, "--num-cpus", "1", **environment)

    def kill_node(self) -> None:
        """The last node, with all its processes, without a word."""
        node = self.nodes.pop()
        for process in (*psutil.Process(node.pid).children(recursive=True), psutil.Process(node.pid)):
            process.kill()
        node.wait()

    def stop(self) -> None:
        while self.nodes:
            self.kill_node()
        shutil.rmtree(self.place, ignore_errors=True)

    def _start(self, *options: str, **environment: str) -> None:
        """Until it says that it runs; Ray gives up on a machine that is too busy, so that it is tried again."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, *LIMITS]
        for attempt in range(3):
            log = self.place / f"start-{len(self.nodes)}-{attempt}.log"
            with log.open("wb") as file:
                node = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | environment)
            self.nodes.append(node)
            while node.poll() is None:
                if "Ray runtime started" in log.read_text():
                    return
                time.sleep(0.2)
            self.nodes.pop()
        raise AssertionError(log.read_text())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        started = Cluster(tempfile.mkdtemp(prefix="ray-"))  # short: sockets are in it
        try:
            started.add()
            started.add()
            yield started
        finally:
            started.stop()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", train=1200, valid=40)


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("annotated") / "out"
    result = annotate(corpus, out)
    assert result.returncode == 0, result.stderr
    return contents(out)


def started(out: Path, shards: int) -> None:
    """Wait until a run has so many shards done."""
    until = time.monotonic() + 240
    while len(list(out.glob("shards/*.parquet"))) < shards:
        assert time.monotonic() < until
        time.sleep(0.02)


def annotating(corpus: Path, out: Path, cluster: Cluster) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "discodvt", "annotate", str(corpus), str(out), "--on", f"ray:{cluster.address}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_driver_killed_and_rerun_resumes(
    corpus: Path, undisturbed: dict[str, bytes], cluster: Cluster, tmp_path: Path
) -> None:
    process = annotating(corpus, tmp_path / "out", cluster)
    started(tmp_path / "out", 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out" / "shards").glob("*.parquet")}
    again = annotating(corpus, tmp_path / "out", cluster)
    started(tmp_path / "out", len(done) + 1)
    assert all(path.stat().st_mtime_ns == done[path] for path in done)  # what was done is not done again
    error = again.communicate()[1]
    assert error.startswith("annotated corpus in "), error
    assert "ray" not in error.replace(str(tmp_path), "").lower()  # nothing of Ray's own
    assert contents(tmp_path / "out") == undisturbed


def test_a_node_killed_halfway_changes_nothing(
    corpus: Path, undisturbed: dict[str, bytes], cluster: Cluster, tmp_path: Path
) -> None:
    process = annotating(corpus, tmp_path / "out", cluster)
    started(tmp_path / "out", 8)
    cluster.kill_node()
    assert process.poll() is None
    output, error = process.communicate(timeout=400)
    assert process.returncode == 0, error
    assert "train: 1,200 stories" in output
    assert contents(tmp_path / "out") == undisturbed


def test_wrong_requests(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    on = ("--on", f"ray:{cluster.address}")
    refused(annotate(corpus, tmp_path / "out", *on, "--resources", "gpus=1"), "--resources cpus=1,gpus=1", "no room")
    refused(annotate(corpus, tmp_path / "out", *on, "--parser", "spacy:nope"), "'nope' cannot be opened")
    assert not (tmp_path / "out").exists()


def test_a_node_with_other_versions_is_named(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other" / "discodvt-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: discodvt\nVersion: 9.9\n")
    path = os.pathsep.join([str(other.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    while len(cluster.nodes) > 1:
        cluster.kill_node()
    cluster.add(PYTHONPATH=path)
    result = annotate(corpus, tmp_path / "out", "--on", f"ray:{cluster.address}")
    refused(result, "discodvt 9.9 there", "install the same versions on every node", code=1)
    assert not (tmp_path / "out").exists()
    assert json.loads((corpus / "manifest.json").read_text())["stage"] == "prepare"
