"""The order of training and the batches made of it."""

import numpy as np
import pytest
import torch

from discodvt.data.batches import Order, collate, in_order, length_keys
from discodvt.data.tokens import Packing, Ragged, Tokens
from discodvt.errors import BadRequest

LENGTHS = np.random.default_rng(0).integers(20, 300, 1003)


def test_an_epoch_holds_every_story_at_most_once():
    order = Order(LENGTHS, 16, 4, seed=1)
    assert order.steps_per_epoch == 62
    first, second = (
        np.concatenate([order.step(epoch * 62 + number).ravel() for number in range(62)]) for epoch in (0, 1)
    )
    assert len(set(first.tolist())) == len(first) == 992
    assert first.tolist() != second.tolist()


def test_the_order_is_a_pure_function_of_seed_and_step():
    a, b = Order(LENGTHS, 16, 4, seed=1), Order(LENGTHS.copy(), 16, 4, seed=1)
    late = a.step(200)
    assert np.array_equal(b.step(200), late)  # asked first, not reached
    assert not np.array_equal(Order(LENGTHS, 16, 4, seed=2).step(200), late)


def test_a_step_is_the_same_stories_however_they_are_shared():
    """Micro-batches are dealt to processes; their union is the step."""
    step = Order(LENGTHS, 16, 4, seed=1).step(5)
    assert step.shape == (4, 4)
    shared = np.concatenate([step[process::2].ravel() for process in (0, 1)])
    assert sorted(shared.tolist()) == sorted(step.ravel().tolist())


def test_padding_stays_under_five_percent():
    lengths = np.clip(np.random.default_rng(1).lognormal(5.1, 0.4, 8000), 10, 512).astype(np.int64)
    prompts = np.random.default_rng(2).integers(5, 18, 8000)
    for size in (4, 32):
        order = Order(length_keys(lengths, prompts), 32, size, seed=0)
        batches = np.concatenate([order.step(number) for number in range(order.steps_per_epoch)])
        room = ((lengths[batches].max(1) + prompts[batches].max(1)) * size).sum()
        assert 1 - (lengths[batches] + prompts[batches]).sum() / room < 0.05


def test_micro_batches_of_a_step_differ_in_length():
    """Sorting must not make steps of short stories only."""
    order = Order(LENGTHS, 16, 4, seed=1)
    spreads = [LENGTHS[order.step(number)].mean(1).std() for number in range(20)]
    assert np.mean(spreads) > 30


def test_too_few_stories_are_refused():
    with pytest.raises(BadRequest, match="do not fill one step"):
        Order(LENGTHS[:10], 16, 4, seed=1)


def test_validation_sees_every_story_once():
    rows = np.concatenate(in_order(LENGTHS, 16))
    assert sorted(rows.tolist()) == list(range(1003))


def test_some_stories_for_validation_are_spread_over_all_lengths():
    batches = in_order(LENGTHS, 16, stories=40)
    assert [len(rows) for rows in batches] == [16, 16, 8]
    chosen = LENGTHS[np.concatenate(batches)]
    assert (np.diff(chosen) >= 0).all()
    assert np.quantile(chosen, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(LENGTHS, [0.1, 0.5, 0.9]), abs=15)
    few = in_order(LENGTHS[:10], 16, stories=40)
    assert sorted(np.concatenate(few).tolist()) == list(range(10))


def test_collation():
    tokens = Tokens(
        prompts=Ragged.of([np.array([0, 7, 2], np.int32), np.array([0, 2], np.int32)]),
        stories=Ragged.of([np.array([0, 5, 6, 2], np.int32), np.array([0, 5, 6, 7, 8, 2], np.int32)]),
        edus=Ragged.of([np.array([0, 3], np.int32), np.array([0, 2, 5], np.int32)]),
        relations=Ragged.of([np.empty(0, np.int32), np.array([4], np.int32)]),
    )
    batch = collate(tokens, np.array([0, 1]), pad=1)
    assert batch["prompt_ids"].tolist() == [[0, 7, 2], [0, 2, 1]]
    assert batch["story_ids"].tolist() == [[0, 5, 6, 1, 1], [0, 5, 6, 7, 8]]
    assert batch["labels"].tolist() == [[5, 6, 2, -100, -100], [5, 6, 7, 8, 2]]
    assert batch["story_mask"].sum(1).tolist() == [3, 5]
    torch.testing.assert_close(batch["pooling"][1, 0], torch.tensor([0.5, 0.5, 0, 0, 0]))
    torch.testing.assert_close(batch["pooling"].sum(-1), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    assert batch["pairs"].tolist() == [[1, 0]]
    assert batch["relations"].tolist() == [4]


def test_ragged_rows_come_back():
    rows = [np.arange(size, dtype=np.int32) for size in (3, 0, 5)] * 700
    ragged = Ragged.of(iter(rows))
    assert len(ragged) == 2100
    assert all(np.array_equal(ragged[place], row) for place, row in enumerate(rows))


def test_packing_keeps_few_small_arrays():
    packing = Packing()
    for number in range(5000):
        packing.add(np.array([number], dtype=np.int32))
        assert len(packing.pending) < 1024
    assert len(packing.blocks) == 4
    assert packing.ragged().values.tolist() == list(range(5000))
