"""CPU time and memory of all processes of a command; and the rows of Ray against local processes."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from discodvt.bench import scale_ray
from discodvt.bench.process_tree import PROC, MeasuredCommand, ProcessTree, run_measured
from discodvt.corpus import row_count
from discodvt.errors import WorkFailed

pytestmark = pytest.mark.skipif(not PROC.is_dir(), reason="reads /proc")
ORPHANS = """
import subprocess, sys, time
work = "import time; until = time.process_time() + 0.4\\nwhile time.process_time() < until: held = bytearray(60 << 20)"
child = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]]); import time; time.sleep(0.5)"
subprocess.run([sys.executable, "-c", child, work])
print("alone", flush=True)
sys.stdin.read()
"""


def test_a_process_that_lost_its_parent_still_counts() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        tree, until = ProcessTree(process.pid), time.monotonic() + 60
        while tree.cpu_seconds < 0.4 and time.monotonic() < until:
            tree.look()
            time.sleep(0.02)
        process.communicate("")
    assert len(tree.seen) == 3
    assert tree.cpu_seconds >= 0.4
    names = {each.name for each in tree.seen.values()}
    assert max(tree.peak("VmHWM", name=name) for name in names) > 60 << 20 > tree.peak("VmHWM")
    assert tree.largest("VmHWM") > 60 << 20


def test_a_command_that_fails_is_no_measurement() -> None:
    with pytest.raises(WorkFailed, match=r"the benched command failed: .*No such command"):
        run_measured(["nonsense"], {})


def test_rows_hold_ray_against_processes_and_many_stories_against_few(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []
    extra = 0.0

    def measured(words: Sequence[object], environment: dict[str, str]) -> MeasuredCommand:
        assert environment["RAY_ADDRESS"] == ""
        stories, on = row_count(Path(str(words[1])) / "train.parquet"), str(words[-1])
        asked.append((on, stories))
        cost = 10 + 0.1 * stories * (1.05 + extra if on == "ray" else 1.0)
        memory = (100 << 20) + (stories << 14 if extra else 0)
        methods = {"peak": lambda self, kind, name=None: memory, "largest": lambda self, kind: stories << 20}
        tree: Any = type("Tree", (), methods)()
        return MeasuredCommand(cost, cost, tree)

    monkeypatch.setattr(scale_ray, "run_measured", measured)
    rows = list(scale_ray.bench_ray(scale=0.01))
    assert asked == [("local", 130), ("ray", 130), ("local", 260), ("ray", 260)]
    assert [row.kept for row in rows] == [None] + [True] * 4  # of few stories the start is much; it is only reported
    assert rows[-1].note.endswith("of the object store a process had 260.0 and 130.0 MiB in use")
    extra = 0.2
    assert [row.kept for row in scale_ray.bench_ray(scale=0.05)] == [None] + [False] * 4
