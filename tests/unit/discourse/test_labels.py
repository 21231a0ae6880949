"""The label inventory is the paper's."""

from discodvt.discourse import CATEGORIES, LABELS, MARKERS, UNKNOWN, category_of, marker_of, relation


def test_twenty_directed_labels_and_unknown() -> None:
    assert len(LABELS) == 21
    assert len(set(LABELS)) == 21
    assert LABELS[-1] == UNKNOWN
    assert "although_arg2_arg1" in LABELS


def test_every_marker_has_one_category() -> None:
    assert sorted(MARKERS) == sorted(marker for markers in CATEGORIES.values() for marker in markers)
    assert category_of("so_arg1_arg2") == category_of("so") == "causal"
    assert category_of(UNKNOWN) is None


def test_direction_is_the_order_in_the_text() -> None:
    assert relation("because", arg1_first=True) == "because_arg1_arg2"
    assert relation("because", arg1_first=False) == "because_arg2_arg1"
    assert marker_of("then_arg2_arg1") == "then"
    assert marker_of(UNKNOWN) is None
