"""The annotate bench runs and gives its three rows (at a size too small for its promises)."""

from discodvt.bench.annotate import bench_annotate


def test_rows_of_the_annotate_bench() -> None:
    rows = list(bench_annotate(rounds=1, scale=0.005))
    assert [row.promise for row in rows] == ["at most 1.25", "at least 1.6", "at most 1.1"]
    assert all(row.ratio > 0 for row in rows)
