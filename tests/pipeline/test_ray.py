"""Stages on a Ray cluster of this machine: a head and two worker nodes, each its own processes."""

import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pytest
from pipeline.test_generate import SHORT, models  # noqa: F401 - a fixture
from pipeline.toy_cluster import Cluster, Forked, Gate, drive, run_each, run_grid, square, tell
from pipeline.toy_corpus import contents, make_corpus, story
from program import Started, refused, run  # noqa: F401 - its server

from discodvt.executors import Place

if sys.platform == "win32":
    pytest.skip("the clusters of this test are started with POSIX signals", allow_module_level=True)

ENVIRONMENT = {  # of every process of the cluster; a token of its own keeps other clusters' out
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_server_request_timeout_seconds": "240",  # a busy machine takes its time
    "RAY_health_check_period_ms": "300",  # a killed node refuses at once, a busy one still has its timeouts
    "RAY_worker_niceness": "0",  # else they come last on it
    "OMP_NUM_THREADS": "1",
}
with pytest.MonkeyPatch.context() as patch:
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    pytest.importorskip("ray", reason="needs the extra `ray`")  # reads them here, for all that is forked


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    modules = str(Path(__file__).parents[1])  # what tests have nodes run
    path = os.pathsep.join([modules, *filter(None, [os.environ.get("PYTHONPATH")])])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (ENVIRONMENT | {"PYTHONPATH": path}).items():
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
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", train=310, valid=10)


@pytest.fixture
def on_cluster(cluster: Cluster, tmp_path: Path) -> Callable[..., Forked]:
    """The program on the cluster, in a process of its own: Ray reads a token once a process."""

    def start(*words: object, gate: Gate | None = None) -> Forked:
        return Forked(tmp_path / "drivers", drive, gate, *map(str, words), "--on", f"ray:{cluster.address}")

    return start


def shards_of(out: Path) -> dict[Path, int]:
    """Shards a run has kept, with the time each was written."""
    folders = (out / "shards", out / "stories.jsonl.shards")
    paths = (path for folder in folders for path in folder.glob("*") if path.suffix in (".parquet", ".jsonl", ".json"))
    return {path: path.stat().st_mtime_ns for path in paths}


def written(out: Path) -> int:
    """Shards a run has done: those it keeps, and those it has appended to its file."""
    stories = out / "stories.jsonl"
    appended = stories.read_bytes().count(b"\n") // 64 if stories.exists() else 0
    return appended + len(shards_of(out))


def wait_until(ready: Callable[[], object], driver: Forked) -> None:
    until = time.monotonic() + 600  # a busy machine takes its time
    while not ready():
        assert driver.process.is_alive(), driver.error.read_text()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def requests(corpus: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, ...]]:  # noqa: F811
    """The words of each stage, six shards of work, but for where it writes."""
    place = tmp_path_factory.mktemp("requests")
    (place / "prompts.txt").write_text("".join(f"A day with {number}\n" for number in range(321)))
    for name, seed in (("written", 0), ("references", 1)):
        rows = ({"id": str(number), "story": story(number, seed)["story"]} for number in range(1025))
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "annotate": ("annotate", corpus),
        "generate": ("generate", "--model", models / "writer", "--prompts", place / "prompts.txt", *SHORT, "--output"),
        "evaluate": ("evaluate", place / "written.jsonl", "--references", place / "references.jsonl", "--resamples", 20,
                     "--out"),
    }  # fmt: skip


def test_a_cluster_started_for_the_run(cluster: Cluster, tmp_path: Path) -> None:
    """Its workers run so many at a time, each as a local process would: in our priority and environment."""
    with tempfile.TemporaryDirectory(prefix="ray-") as place, pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_worker_niceness")
        given = {"RAY_TMPDIR": place, "RAY_ADDRESS": "", "LD_PRELOAD": "libm.so.6"}  # short: sockets are in it
        done = Forked(tmp_path, run_each, tell, Place("ray", workers=1), range(4), **given).ended()
    assert done.returncode == 0, done.stderr
    told = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines()]
    assert [(each["nice"], each["preload"]) for each in told] == [(os.nice(0), "libm.so.6")] * 4
    assert all(before["end"] <= after["begin"] for before, after in pairwise(sorted(told, key=itemgetter("begin"))))


def test_a_poisonous_shard_is_named_after_three_tries(cluster: Cluster, tmp_path: Path) -> None:
    done = Forked(tmp_path, run_each, square, Place(f"ray:{cluster.address}"), range(8)).ended()
    assert sorted(done.stdout.splitlines()) == [f"{number} {number**2}" for number in range(8) if number != 3]
    assert "WorkFailed: 1 shard failed 3 times: <3> (ValueError: bad luck)" in done.stderr


@pytest.mark.parametrize("stage", ["annotate", "generate", "evaluate"])
def test_a_killed_driver_is_resumed_and_a_node_killed_halfway_changes_nothing(
    requests: dict[str, tuple[object, ...]],
    cluster: Cluster,
    on_cluster: Callable[..., Forked],
    tmp_path: Path,
    stage: str,
) -> None:
    if len(cluster.nodes) < 3:  # another stage's was killed
        cluster.add()
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed" / "out"
    file = "stories.jsonl" if stage == "generate" else ""
    assert run(*requests[stage], undisturbed / file).returncode == 0
    killed = on_cluster(*requests[stage], out / file, gate=Gate(tmp_path / "first", 2))
    wait_until(lambda: written(out) == 2, killed)
    killed.process.kill()
    killed.process.join()
    assert not list(out.glob("*manifest.json"))
    done, gate = shards_of(out), Gate(tmp_path / "second", 1)
    assert written(out) == 2
    again = on_cluster(*requests[stage], out / file, gate=gate)
    wait_until(lambda: written(out) == 3 and gate.signed == 3, again)  # two wait, one on each node
    cluster.kill_node()
    gate.open()
    after = shards_of(out)
    assert all(after[path] == done[path] for path in done.keys() & after.keys())  # what was done is not done again
    result = again.ended()
    assert result.returncode == 0, result.stderr
    assert "ray" not in result.stderr.replace(str(tmp_path), "").lower()  # nothing of Ray's own
    assert gate.signed == 4 + 1  # of six shards two were done; one was lost with its node
    assert contents(out) == contents(undisturbed)


def test_steps_of_a_grid_are_tasks(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    """Each in a process on a node, after what it needs; a failed one is named, the rest goes on; done ones are kept."""
    (tmp_path / "corpus").mkdir()
    shutil.copyfile(corpus / "valid.parquet", tmp_path / "corpus" / "test.parquet")
    (tmp_path / "grid" / "made").mkdir(parents=True)
    (tmp_path / "grid" / "made" / "prompts.parquet").touch()
    place = Place(f"ray:{cluster.address}")
    done = Forked(tmp_path / "drivers", run_grid, place, tmp_path / "corpus", tmp_path / "grid").ended()
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told.index("done first ") < told.index("start second ") < told.index("done second ")
    assert any(line.startswith("failed missing ") and "no test split to write to" in line for line in told)
    assert "left out third needs missing, which failed" in told
    assert not any(" made " in line for line in told)
    assert (tmp_path / "grid" / "second" / "prompts.parquet").exists()


def test_wrong_requests(corpus: Path, on_cluster: Callable[..., Forked], tmp_path: Path) -> None:
    annotating = ("annotate", corpus, tmp_path / "out")
    refused(on_cluster(*annotating, "--resources", "gpus=1").ended(), "--resources cpus=1,gpus=1", "no room")
    refused(on_cluster(*annotating, "--parser", "spacy:nope").ended(), "'nope' cannot be opened")
    assert not (tmp_path / "out").exists()


def test_a_node_with_other_versions_is_named(
    corpus: Path, cluster: Cluster, on_cluster: Callable[..., Forked], tmp_path: Path
) -> None:
    other = tmp_path / "other" / "discodvt-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: discodvt\nVersion: 9.9\n")
    while len(cluster.nodes) > 1:
        cluster.kill_node()
    cluster.add(PYTHONPATH=os.pathsep.join([str(other.parent), os.environ["PYTHONPATH"]]))
    result = on_cluster("annotate", corpus, tmp_path / "out").ended()
    refused(result, "discodvt 9.9 there", "install the same versions on every node", code=1)
    assert not (tmp_path / "out").exists()
