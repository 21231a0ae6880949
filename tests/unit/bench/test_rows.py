"""Bench rows: ratios over rounds, held against their promise."""

from discodvt.bench.rows import interleave, ratio_row


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
