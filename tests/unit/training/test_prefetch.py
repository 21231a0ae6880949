"""Batches made ahead in a thread: the same ones in the same order, errors in their place, no thread left behind."""

import threading
import time

import numpy as np
import pytest
import torch

from discodvt.training.prefetch import MicroBatch, Prefetch, micro_batches


class Order:
    def step(self, number: int) -> np.ndarray:
        return np.arange(8).reshape(4, 2) + 8 * number


class Feed:
    def __init__(self) -> None:
        self.made: list[tuple[int, list[int]]] = []

    def counts(self, rows):
        return {"stories": len(rows), "sum": int(rows.sum())}

    def batch(self, rows, *, step):
        if step == 3:
            raise ValueError("row 24")
        self.made.append((step, rows.tolist()))
        return {"rows": torch.from_numpy(rows)}


def test_a_process_reads_its_own_share_in_order():
    feeds = [Feed(), Feed()]
    taken = [
        list(Prefetch(micro_batches(Order(), feed, steps=range(1, 3), process=number, processes=2)))
        for number, feed in enumerate(feeds)
    ]
    assert [each.batch["rows"].tolist() for each in taken[0]] == [[8, 9], [12, 13], [16, 17], [20, 21]]
    assert [each.last for each in taken[0]] == [False, True, False, True]
    assert {each.counts["sum"] for each in taken[0][:2]} == {sum(range(8, 16))}  # of the whole step
    assert not {row for _, rows in feeds[0].made for row in rows} & {row for _, rows in feeds[1].made for row in rows}


def test_a_few_batches_wait_and_no_more():
    feed = Feed()
    prefetch = Prefetch(micro_batches(Order(), feed, steps=range(3)), ahead=2)
    deadline = time.monotonic() + 5
    while len(feed.made) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(feed.made) == 3  # two that wait, and the one that is asked for next
    before = threading.active_count()
    prefetch.close()
    assert threading.active_count() == before - 1


def test_an_error_comes_where_its_batch_would_have():
    prefetch = Prefetch(micro_batches(Order(), Feed(), steps=range(2, 5)))
    assert [isinstance(next(prefetch), MicroBatch) for _ in range(4)] == [True] * 4
    with pytest.raises(ValueError, match="row 24"):
        next(prefetch)
    prefetch.close()
