"""The annotate bench: its command runs, and its four rows say what was measured."""

from pathlib import Path

import pytest

from discodvt.bench import annotate
from discodvt.bench.rows import OtherWork


def test_the_benched_command_runs(tmp_path: Path) -> None:
    corpus = annotate.corpus_of(tmp_path / "corpus", ["The fox ran because he was late."])
    assert annotate._annotate(corpus, workers=1) > 2**20


def test_memory_is_not_measured_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS the last row of the bench was a division by zero."""
    monkeypatch.setattr(annotate, "_annotate", lambda corpus, *, workers: 0.0)
    row = annotate._memory(scale=0.001)
    assert (row.ratio, row.promise, row.note) == (None, "at most 1.1", "the memory of a process is read from /proc")


@pytest.mark.parametrize("busy", [0.0, 1.5])
def test_rows_of_the_annotate_bench(monkeypatch: pytest.MonkeyPatch, busy: float) -> None:
    """Beside the work of others the clock is not believed."""
    monkeypatch.setattr(annotate, "_annotate", lambda corpus, *, workers: 2.0 + 0 * sum(range(4 * 10**6)))
    monkeypatch.setattr(OtherWork, "cores", lambda self: busy)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    overhead, cpu, clock, memory = annotate.bench_annotate(rounds=1, scale=0.001)
    assert (overhead.promise, cpu.promise, memory.promise) == ("at most 1.25", "at most 1.25", "at most 1.1")
    assert (memory.ratio, memory.kept) == (1.0, True)
    assert overhead.ratio > 0
    assert cpu.ratio > 0
    assert clock.promise == "at least 1.6"
    if busy:
        assert (clock.ratio, clock.kept, clock.note) == (None, None, "others used 1.5 of 2 cores meanwhile")
    else:
        assert clock.ratio > 0
