"""What writing needs of a model: an engine reads a prompt into a row of its cache and extends all rows by one symbol.

Symbols are the subwords of a story, or the codes of a plan. Engines: `bart`, `llama` (CPU, bare weights) and
`transformers_engine` (every causal model, GPUs). A row's numbers must not depend on its neighbours: prompts are read
alone, and attention adds up each row in its own order, over whole vector registers, closed by a mask. So on a CPU
batches of two and more give the same bits; a single row takes other kernels of the BLAS, which round otherwise in the
last bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from discodvt.errors import BadRequest

WINDOW = 32  # caches grow by whole vector registers of float32


class Cache(ABC):
    """The sequences being written, one row each; rows in use are the first ones."""

    @abstractmethod
    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        """Give a row to a new sequence of up to `most` symbols after a prompt, the first of them (`told`) given.

        `latent` [most, D] is added where the symbols are predicted. Prompt and given symbols are read in one pass.
        """

    @abstractmethod
    def move_row(self, source: int, target: int) -> None:
        """Move a sequence to the row of a finished one."""

    @abstractmethod
    def step(self, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        """The last symbol of each of the first B rows, and how many each has, to logits [B, V] of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """The symbols of a model: what begins and ends a sequence, what stands around a prompt, which are never drawn.

    `first` is the word that is symbol 0: a causal prior has its codes after the words of prompts.
    """

    start: int
    end: int
    prompt_start: tuple[int, ...] = ()
    prompt_end: tuple[int, ...] = ()
    first: int = 0
    never: tuple[int, ...] = ()

    @classmethod
    def of_codes(cls, codes: int, *, first: int = 0) -> "Vocabulary":
        """That of a prior: K codes, then bos, eos and pad, of which only eos is drawn."""
        return cls(start=codes, end=codes + 1, first=first, never=(codes, codes + 2))

    @classmethod
    def of_text(cls, config: Mapping[str, Any], separator: int | None) -> "Vocabulary":
        """That of a causal language model, `BOS prompt SEP story EOS`, as `model.backbones.causal` has it."""
        bos, eos = config.get("bos_token_id"), config.get("eos_token_id")
        eos = eos[0] if isinstance(eos, list) else eos
        if eos is None:
            raise BadRequest("config.json: no end symbol (eos_token_id) in it; give a model with one")
        return cls(start=eos if separator is None else separator, end=eos, prompt_start=() if bos is None else (bos,))

    def bias(self, head: Tensor) -> Tensor | None:
        """What is added to logits of an output layer [V, D] so that what is never drawn is not."""
        if not self.never:
            return None
        bias = head.new_zeros(len(head))
        bias[list(self.never)] = float("-inf")
        return bias


class Engine(ABC):
    """A model that writes sequences of symbols after prompts."""

    name: str
    device: torch.device

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.start, self.end = vocabulary.start, vocabulary.end

    @abstractmethod
    def new_cache(self, rows: int, length: int) -> Cache:
        """A cache with room for so many rows of so many symbols; it grows where more is needed."""

    @abstractmethod
    def room(self, prompt: int) -> int:
        """How many symbols the model's positions hold after a prompt of so many."""


class KVStore:
    """Keys and values of every layer, of rows that begin at position 0 and are each of their own length.

    Keys are kept as [rows, heads, D / H, length] and values as [rows, heads, length, D / H]: for a single query both
    products of attention are then sums of weighted rows of a table, which `embedding_bag` adds up for all heads of all
    rows in one call, in the same order whatever stands beside a row. Matrix products, one for each head of each row,
    take up to three times as long. All of a store is read, so its length follows that of the longest row.
    """

    def __init__(self, layers: int, heads: int, width: int, *, queries: int, rows: int, like: Tensor) -> None:
        """So many heads of keys and values, each shared by queries / heads heads of queries."""
        self._shape, self._queries, self._scale = (layers, heads, width), queries, width**-0.5
        self._like, self.rows, self.length = like, rows, WINDOW
        self._sums_of = 0  # how many rows the sums are made for
        self.keys, self.values = self._places()
        self._fit()

    def mask(self, places: Any) -> Tensor:
        """What the position of each row (a number, or a tensor [B]) may see: [B, 1, length]."""
        return self._masks[self.length - 1 - places].view(-1, 1, self.length)

    def attend(self, layer: int, query: Tensor, mask: Tensor) -> Tensor:
        """One query [B, H, D / H] of each of the first rows to what it reads [B, D]; mask [B, 1, length]."""
        count, heads, width = query.shape
        if self._sums_of != count:
            self._sums_of, (self._key_sums, self._value_sums) = count, self._sums(count)
        scores = self._key_sums(self.keys[layer].view(-1, self.length), query.reshape(-1))
        weights = torch.add(mask, scores.view(count, heads, self.length), alpha=self._scale).softmax(2)
        return self._value_sums(self.values[layer].view(-1, width), weights.view(-1)).view(count, -1)

    def move_row(self, source: int, target: int) -> None:
        for kept in (*self.keys, *self.values):
            kept[target] = kept[source]

    def ensure(self, rows: int, length: int) -> None:
        """Make room for so many rows of such a length."""
        if rows <= self.rows and length <= self.length:
            return
        before, old_rows, old_length = (self.keys, self.values), self.rows, self.length
        if rows > self.rows:
            self.rows = max(rows, 2 * self.rows)  # so that few moves are needed
        self.length = max(whole_windows(length), self.length)
        self.keys, self.values = self._places()
        for old, keys in zip(before[0], self.keys, strict=True):
            keys[:old_rows, :, :, :old_length] = old
        for old, values in zip(before[1], self.values, strict=True):
            values[:old_rows, :, :old_length] = old
        self._fit()

    def _places(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Room for keys and for values, of each layer."""
        layers, heads, width = self._shape
        keys = _zeros((layers, self.rows, heads, width, self.length), self._like)
        values = _zeros((layers, self.rows, heads, self.length, width), self._like)
        return keys.unbind(), values.unbind()

    def _fit(self) -> None:
        """Masks of this length: row r is a view of a step from 0 to minus infinity that begins r later."""
        edge = torch.cat([self._like.new_zeros(self.length), self._like.new_full((self.length,), float("-inf"))])
        self._masks = edge.unfold(0, self.length, 1)
        self._sums_of = 0

    def _sums(self, count: int) -> "list[_WeightedSums]":
        """For so many rows, those over the numbers of a key and those over positions."""
        _, heads, width = self._shape
        blocks = torch.arange(count * heads, device=self._like.device, dtype=torch.int32)
        blocks = blocks.repeat_interleave(self._queries // heads)  # head of keys and values of each head of queries
        return [_WeightedSums(blocks, size) for size in (width, self.length)]


class _WeightedSums:
    """Sums over blocks of rows of a table, each row times its weight."""

    def __init__(self, blocks: Tensor, size: int) -> None:
        """Numbers of the blocks [N], which are of so many rows each."""
        inside = torch.arange(size, device=blocks.device, dtype=torch.int32)
        self._rows = (blocks[:, None] * size + inside).flatten()
        self._ends = torch.arange(0, len(self._rows) + 1, size, device=blocks.device, dtype=torch.int32)

    def __call__(self, table: Tensor, weights: Tensor) -> Tensor:
        """A table [_, C] and weights [N * size] to sums [N, C]."""
        return torch.embedding_bag(table, self._rows, self._ends, False, 0, False, weights, True)[0]


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros from NumPy, which asks for huge pages: a cache that is read whole at every step is then read faster."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    return torch.from_numpy(np.zeros(shape, dtype=np.float32)).to(like.dtype)


def whole_windows(length: int) -> int:
    """The length, filled up to whole windows."""
    return -(-length // WINDOW) * WINDOW
