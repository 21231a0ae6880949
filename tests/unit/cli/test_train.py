"""What `discodvt train` shows besides the steps."""

from collections.abc import Iterator

import pytest

from discodvt.cli.train import show_events
from discodvt.training.assembly import Progress
from discodvt.training.loop import Event


def test_a_log_says_how_far_plans_are_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter((0.0, 4.0, 11.0, 11.0, 15.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock, 20.0))

    def start(progress: Progress) -> Iterator[Event]:
        for done in (64, 128, 192):
            progress("reading plans", done, 1200)
        yield Event("note", 0, 0, {}, "done")

    show_events(start, "prior")
    said = capsys.readouterr()
    assert said.err.splitlines() == ["reading plans 128/1,200"]
    assert said.out == "done\n"
