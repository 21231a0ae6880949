"""Bench rows: ratios over rounds, held against their promise."""

from itertools import count

from discodvt.bench.rows import interleave, ratio_row, unmeasured_row


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
