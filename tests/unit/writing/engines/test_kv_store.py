"""Keys and values of a batch: attention over them is that of PyTorch, in any company and after any growth."""

import pytest
import torch
from torch.nn import functional as F

from discodvt.writing.engines.engine import WINDOW, KVStore

WIDTH, HEADS = 6, 2


def filled(store: KVStore, lengths: list[int], *, layers: int = 1, seed: int = 0) -> None:
    """Write rows of such lengths, the same numbers for the same row."""
    store.ensure(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        random = torch.Generator().manual_seed(seed + row)
        for layer in range(layers):
            keys, values = torch.randn(2, HEADS, length, WIDTH, generator=random)
            store.fill(layer, row, keys[:, : length // 2], values[:, : length // 2])
            for place in range(length // 2, length):  # as a step does, by numbers or by tensors
                rows, places = (row, place) if place % 2 else (torch.tensor([row]), torch.tensor([place]))
                store.write(layer, rows, store.split(places), keys[None, :, place], values[None, :, place])


def attended(store: KVStore, layer: int, lengths: list[int], queries: torch.Tensor) -> torch.Tensor:
    return store.attend(layer, queries, store.mask(torch.tensor(lengths) - 1))


@pytest.mark.parametrize("heads", [HEADS, 3 * HEADS])  # of queries: as many as of keys, or three to one
def test_attention_is_that_of_pytorch(heads):
    lengths = [5, WINDOW, 1, WINDOW + 9]
    store = KVStore(2, HEADS, WIDTH, queries=heads, rows=1, length=20, like=torch.zeros(0))
    filled(store, lengths, layers=2)
    queries = torch.randn(len(lengths), heads, WIDTH, generator=torch.Generator().manual_seed(9))
    for layer in range(2):
        found = attended(store, layer, lengths, queries)
        for row, length in enumerate(lengths):
            keys, values = (each[:, :length].repeat_interleave(heads // HEADS, 0) for each in store.row(layer, row))
            expected = F.scaled_dot_product_attention(queries[row, :, None], keys, values).flatten()
            torch.testing.assert_close(found[row], expected, atol=1e-6, rtol=1e-5)


def test_a_row_has_the_same_bits_alone_in_company_and_after_growth():
    queries = torch.randn(3, HEADS, WIDTH, generator=torch.Generator().manual_seed(9))
    alone = KVStore(1, HEADS, WIDTH, queries=HEADS, rows=1, length=20, like=torch.zeros(0))
    filled(alone, [20])
    expected = attended(alone, 0, [20], queries[:1])[0]
    store = KVStore(1, HEADS, WIDTH, queries=HEADS, rows=1, length=20, like=torch.zeros(0))
    filled(store, [20])
    assert torch.equal(attended(store, 0, [20], queries[:1])[0], expected)
    store.ensure(3, 1)  # no longer a single row: its windows are cut into smaller ones
    assert torch.equal(attended(store, 0, [20], queries[:1])[0], expected)
    filled(store, [20, 7, 3 * WINDOW])
    assert store.rows >= 3
    assert torch.equal(attended(store, 0, [20, 7, 3 * WINDOW], queries)[0], expected)
    store.ensure(9, 9 * WINDOW + 1)
    assert torch.equal(attended(store, 0, [20, 7, 3 * WINDOW], queries)[0], expected)
    store.move_row(0, 2)
    moved = attended(store, 0, [20, 7, 20], queries[[0, 1, 0]])
    assert torch.equal(moved[2], expected)
