"""Bench rows: ratios over rounds, held against their promise."""

import subprocess
import sys
from itertools import count

import pytest

from discodvt.bench import rows
from discodvt.bench.rows import OtherWork, cpu_seconds, interleave, ratio_row, unmeasured_row


def test_works_take_turns_and_the_order_turns() -> None:
    calls: list[str] = []
    seconds = interleave([lambda: calls.append("a"), lambda: calls.append("b")], 3)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert [len(each) for each in seconds] == [3, 3]


def test_the_median_ratio_is_held_against_the_bound() -> None:
    row = ratio_row("r", [1.0, 2.0, 9.0], [1.0, 1.0, 1.0], at_most=2.0)
    assert (row.ratio, row.low, row.high, row.kept) == (2.0, 1.0, 9.0, True)
    assert ratio_row("r", [1.0], [1.0], at_least=1.5).kept is False
    assert ratio_row("r", [1.0], [1.0]).kept is None


def test_no_round_is_begun_after_the_given_seconds_but_the_first() -> None:
    calls: list[int] = []
    ticks = count()
    assert interleave([lambda: calls.append(1)], 9, seconds=-1.0, clock=lambda: next(ticks)) == [[1]]
    assert calls == [1]


def test_a_line_tells_what_was_measured_or_why_not() -> None:
    assert ratio_row("r", [1.0, 3.0], [1.0, 1.0], at_most=1.0).as_line().plain.split() == [
        "broken", "2.00", "(1.00", "to", "3.00)", "at", "most", "1", "r"
    ]  # fmt: skip
    assert "not measured" in unmeasured_row("r", "no time", at_least=3).as_line().plain
    assert unmeasured_row("r", "no time", at_least=3).promise == "at least 3"


def test_cpu_seconds_are_those_of_commands_too() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert 0.25 < cpu_seconds() - before < 5  # the kernel counts in hundredths of a second


def test_what_others_compute_is_told_from_what_we_do(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = tmp_path / "stat"
    monkeypatch.setattr(rows, "_STAT", stat)
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    monkeypatch.setattr(rows, "cpu_seconds", lambda: ours)
    monkeypatch.setattr("time.perf_counter", lambda: clock)
    ours, clock = 1.0, 10.0
    stat.write_text("cpu  100 200 50 9999 9999 0 0 0 77 0\ncpu0 1 1 1 1\n")
    others = OtherWork()
    ours, clock = 3.0, 14.0
    stat.write_text("cpu  500 400 150 99999 9999 100 0 0 77 0\ncpu0 1 1 1 1\n")
    assert others.cores() == (8.0 - 2.0) / 4.0
