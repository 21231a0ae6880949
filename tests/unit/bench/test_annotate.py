"""The annotate bench runs and gives its four rows (at a size too small for its promises)."""

import pytest

from discodvt.bench import annotate
from discodvt.bench.rows import OtherWork


def test_rows_of_the_annotate_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OtherWork, "cores", lambda self: 0.0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    rows = list(annotate.bench_annotate(rounds=1, scale=0.005))
    assert [row.promise for row in rows] == ["at most 1.25", "at most 1.25", "at least 1.6", "at most 1.1"]
    assert all(row.ratio > 0 for row in rows)


def test_beside_other_work_the_clock_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotate, "_annotate", lambda corpus, *, workers: sum(range(10**6)))
    monkeypatch.setattr(OtherWork, "cores", lambda self: 1.5)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    cpu, clock = annotate._workers(["A fox ran."], rounds=1)
    assert cpu.ratio > 0
    assert (clock.ratio, clock.kept, clock.note) == (None, None, "others used 1.5 of 2 cores meanwhile")
