"""The serving bench: a real server in its own process, at a size too small for its promises of speed."""

import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from unit.writing.toy_writer import save_writer

from discodvt.bench.serve import bench_serve
from discodvt.bench.story_server import events
from discodvt.experiments.grid_run import _context


@pytest.fixture
def quick(monkeypatch, warm_workers) -> None:
    """The server has all libraries already, and idleness is a matter of hundredths of a second."""
    warm = SimpleNamespace(get_context=lambda method: _context())
    hasty = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: time.sleep(seconds / 5))
    monkeypatch.setattr("discodvt.bench.story_server.multiprocessing", warm)
    monkeypatch.setattr("discodvt.bench.story_server.time", hasty)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_rows_on_a_toy_writer(tmp_path, monkeypatch, quick):
    monkeypatch.setattr("discodvt.bench.serve.TOKENS", 8)
    monkeypatch.setattr("discodvt.bench.serve.BUSY", 60)
    monkeypatch.setattr("discodvt.bench.serve.CANCELLED_TOKENS", 60)
    monkeypatch.setattr("discodvt.bench.serve.LONG_TOKENS", 60)
    rows = list(bench_serve(str(save_writer(tmp_path)), rounds=1, scale=0.03, stories=10))
    assert [row.name.split(",")[0] for row in rows] == [
        "streams lost or different / streams",
        "4 streams / write_many at batch 32",
        "steps from a cancel to the freed row",
        "CPU time of a story / without 6 clients that never read",
        "CPU time of a story / without 6 clients that never read",
        "CPU time of a story / without 6 clients that never read",
        "rewriting from the middle of a story / writing all of it",
        "memory after 10 stories / after 2",
    ]
    lost, _, cancel, stalled, _, _, _, memory = rows
    assert (lost.ratio, lost.kept) == (0, True)
    assert (cancel.high, cancel.kept) == (1, True)
    assert stalled.ratio is not None  # all six had more to be sent than their sockets take
    assert 0.5 < memory.ratio < 2


def test_no_row_is_begun_too_late(tmp_path, monkeypatch):
    monkeypatch.setattr("discodvt.bench.serve.story_server", lambda *given, **more: nullcontext())
    (row,) = bench_serve(str(save_writer(tmp_path)), minutes=0)
    assert (row.ratio, row.note) == (None, "the 0 minutes (--minutes) were over")


def test_events_of_a_body():
    body = b': ping\n\nid: 1\nevent: text\ndata: {"delta": "a: b"}\n\nid: 2\nevent: done\ndata: {}\n\n'
    assert events(body) == [("text", {"delta": "a: b"}), ("done", {})]
