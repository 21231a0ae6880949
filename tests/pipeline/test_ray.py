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
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import psutil
import pytest
from pipeline.test_annotate import contents, make_corpus
from pipeline.test_generate import SHORT, models  # noqa: F401 - a fixture
from program import refused, run

pytest.importorskip("ray", reason="needs the extra `ray`")
if sys.platform == "win32":
    pytest.skip("the clusters of this test are started with POSIX signals", allow_module_level=True)

ENVIRONMENT = {  # of every process of the cluster; a token of its own keeps other clusters' out
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_gcs_server_request_timeout_seconds": "240",  # a busy machine takes its time
    "RAY_worker_niceness": "0",  # else they come last on it
    "OMP_NUM_THREADS": "1",
}
LIMITS = (
    "--object-store-memory",
    str(80 << 20),
    "--dashboard-agent-listen-port",
    "0",
    "--disable-usage-stats",
    "--block",
)
POISON = """
import sys
from discodvt.executors import Place, open_executor, run_shards

def square(number):
    if number == 3:
        raise ValueError("bad luck")
    return number * number

if __name__ == "__main__":
    import poison
    with open_executor(Place("ray:" + sys.argv[1])) as executor:
        for shard, result in run_shards(executor, poison.square, range(8), name="<{}>".format):
            print(shard, result, flush=True)
"""

OWN = """
import json, os, time
from discodvt.executors import Place, open_executor, run_shards

def tell(number):
    begin = time.time()
    time.sleep(0.1)
    return {"nice": os.nice(0), "preload": os.environ.get("LD_PRELOAD"), "begin": begin, "end": time.time()}

if __name__ == "__main__":
    import own
    with open_executor(Place("ray", workers=1)) as executor:
        for shard, told in run_shards(executor, own.tell, range(4), name=str):
            print(json.dumps(told), flush=True)
"""


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


GRID = """
import sys
from pathlib import Path
from discodvt.executors import Place
from discodvt.experiments.grid_steps import Plan, Step
from discodvt.experiments.grid_run import GridRun

corpus, out = Path(sys.argv[2]), Path(sys.argv[3])

def step(name, source, *after):
    target = out / name / "prompts.parquet"
    return Step("prompts", name, target, ("prompts", str(source), "3", str(target)), after)

first, missing = step("first", corpus), step("missing", out / "none")
steps = (first, missing, step("second", corpus, first), step("third", corpus, missing))
work = GridRun(Plan(None, out, steps, ()), jobs=2, place=Place("ray:" + sys.argv[1]))
for event in work.run():
    if event.state != "tick":
        print(event.state, event.step.name, event.message, flush=True)
"""


class Cluster:
    """`ray start` for a head without CPUs and for nodes with one CPU each."""

    def __init__(self, place: str) -> None:
        self.place = Path(place)
        self.nodes: list[subprocess.Popen[bytes]] = []
        port, client_port = free_port(), free_port()  # Ray's own are the same for every cluster of a machine
        self.address = f"127.0.0.1:{port}"
        head = ("--head", "--port", port, "--ray-client-server-port", client_port, "--num-cpus", "0")
        self._start(*head, "--include-dashboard", "false", "--temp-dir", place)

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
        """Until it says that it runs; Ray gives up after 30 seconds on a busy machine: it is tried again."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, *LIMITS]
        for attempt in range(6):
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
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    poison = tmp_path_factory.mktemp("poison")
    (poison / "poison.py").write_text(POISON)
    path = os.pathsep.join([str(poison), *filter(None, [os.environ.get("PYTHONPATH")])])
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
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", train=640, valid=40)


def on(cluster: Cluster, *words: object) -> "subprocess.Popen[str]":
    """The program on the cluster, in a process of its own: Ray reads a token once a process."""
    command = [sys.executable, "-m", "discodvt", *map(str, words), "--on", f"ray:{cluster.address}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: "subprocess.Popen[str]") -> "subprocess.CompletedProcess[str]":
    output, error = process.communicate(timeout=400)
    return subprocess.CompletedProcess(process.args, process.returncode, output, error)


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


def started(out: Path, shards: int) -> None:
    """Wait until a run has so many shards done."""
    until = time.monotonic() + 600  # a busy machine takes its time
    while written(out) < shards:
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture(scope="module")
def requests(corpus: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[object, ...]]:  # noqa: F811
    """The words of each stage, some shards of work, but for where it writes."""
    place = tmp_path_factory.mktemp("requests")
    (place / "prompts.txt").write_text("".join(f"A day with {number}\n" for number in range(640)))
    return {
        "annotate": ("annotate", corpus),
        "generate": ("generate", "--model", models / "writer", "--prompts", place / "prompts.txt", *SHORT, "--output"),
    }


def test_generate_and_evaluate_end_in_the_bytes_of_one_process(
    models: Path,  # noqa: F811
    cluster: Cluster,
    tmp_path: Path,
) -> None:
    (tmp_path / "prompts.txt").write_text("".join(f"A day with {number}\n" for number in range(300)))
    request = ("generate", "--model", models / "writer", "--prompts", tmp_path / "prompts.txt", *SHORT, "--output")
    here, there = tmp_path / "here", tmp_path / "there"
    assert run(*request, here / "a.jsonl").returncode == 0
    done = ended(on(cluster, *request, there / "a.jsonl"))
    assert done.returncode == 0, done.stderr
    assert contents(there) == contents(here)
    scores = ("evaluate", here / "a.jsonl", "--references", here / "a.jsonl", "--resamples", 20, "--out")
    assert run(*scores, here / "scores").returncode == 0
    done = ended(on(cluster, *scores, there / "scores"))
    assert done.returncode == 0, done.stderr
    assert contents(there) == contents(here)


def test_a_cluster_started_for_the_run(tmp_path: Path) -> None:
    """Its workers run so many at a time, each as a local process would: in our priority and environment."""
    (tmp_path / "own.py").write_text(OWN)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory(prefix="ray-") as place:  # short: sockets are in it; no other cluster's are
        given = {"PYTHONPATH": path, "RAY_TMPDIR": place, "RAY_ADDRESS": "", "LD_PRELOAD": "libm.so.6"}
        environment = {name: value for name, value in os.environ.items() if name != "RAY_worker_niceness"} | given
        words = [sys.executable, tmp_path / "own.py"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["nice"], each["preload"]) for each in told] == [(os.nice(0), "libm.so.6")] * 4
    assert all(before["end"] <= after["begin"] for before, after in pairwise(sorted(told, key=itemgetter("begin"))))


def test_a_poisonous_shard_is_named_after_three_tries(cluster: Cluster) -> None:
    script = Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "poison.py"
    done = subprocess.run([sys.executable, script, cluster.address], capture_output=True, text=True, check=False)
    assert sorted(done.stdout.splitlines()) == [f"{number} {number**2}" for number in range(8) if number != 3]
    assert "WorkFailed: 1 shard failed 3 times: <3> (ValueError: bad luck)" in done.stderr


@pytest.mark.parametrize(("stage", "shards"), [("annotate", 11), ("generate", 10)])
def test_a_killed_driver_is_resumed_and_a_node_killed_halfway_changes_nothing(
    requests: dict[str, tuple[object, ...]], cluster: Cluster, tmp_path: Path, stage: str, shards: int
) -> None:
    if len(cluster.nodes) < 3:  # another stage's was killed
        cluster.add()
    out, undisturbed = tmp_path / "out", tmp_path / "undisturbed" / "out"
    file = "stories.jsonl" if stage == "generate" else ""
    assert run(*requests[stage], undisturbed / file).returncode == 0
    process = on(cluster, *requests[stage], out / file)
    started(out, 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not list(out.glob("*manifest.json"))
    done, count = shards_of(out), written(out)
    assert count < shards - 2
    again = on(cluster, *requests[stage], out / file)
    started(out, count + 1)
    cluster.kill_node()
    assert again.poll() is None
    after = shards_of(out)
    assert all(after[path] == done[path] for path in done.keys() & after.keys())  # what was done is not done again
    result = ended(again)
    assert result.returncode == 0, result.stderr
    assert "ray" not in result.stderr.replace(str(tmp_path), "").lower()  # nothing of Ray's own
    assert contents(out) == contents(undisturbed)


def test_steps_of_a_grid_are_tasks(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    """Each in a process on a node, after what it needs; a failed one is named, the rest goes on; done ones are kept."""
    (tmp_path / "corpus").mkdir()
    shutil.copyfile(corpus / "valid.parquet", tmp_path / "corpus" / "test.parquet")
    words = [sys.executable, "-c", GRID, cluster.address, tmp_path / "corpus", tmp_path / "grid"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told.index("done first ") < told.index("start second ") < told.index("done second ")
    assert any(line.startswith("failed missing ") and "no test split to write to" in line for line in told)
    assert "left out third needs missing, which failed" in told
    assert (tmp_path / "grid" / "second" / "prompts.parquet").exists()
    again = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    assert [line.split()[:2] for line in again] == [["start", "missing"], ["failed", "missing"], ["left", "out"]]


def test_wrong_requests(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    annotating = ("annotate", corpus, tmp_path / "out")
    refused(ended(on(cluster, *annotating, "--resources", "gpus=1")), "--resources cpus=1,gpus=1", "no room")
    refused(ended(on(cluster, *annotating, "--parser", "spacy:nope")), "'nope' cannot be opened")
    assert not (tmp_path / "out").exists()


def test_a_node_with_other_versions_is_named(corpus: Path, cluster: Cluster, tmp_path: Path) -> None:
    other = tmp_path / "other" / "discodvt-9.9.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: discodvt\nVersion: 9.9\n")
    while len(cluster.nodes) > 1:
        cluster.kill_node()
    cluster.add(PYTHONPATH=os.pathsep.join([str(other.parent), os.environ["PYTHONPATH"]]))
    result = ended(on(cluster, "annotate", corpus, tmp_path / "out"))
    refused(result, "discodvt 9.9 there", "install the same versions on every node", code=1)
    assert not (tmp_path / "out").exists()
