"""What writing needs of a model: an engine reads a prompt into a row of its cache and extends all rows by one symbol.

Symbols are the subwords of a story, or the codes of a plan. Engines: `bart`, `llama` (CPU, bare weights) and
`transformers_engine` (every causal model, GPUs). A row's numbers must not depend on its neighbours: prompts are read
alone, and attention adds up each row in its own order, over whole vector registers, closed by a mask. So on a CPU
batches of two and more give the same bits; a single row takes other kernels of the BLAS, which round otherwise in the
last bit. Compiled steps (`compiled`) give a row the same bits in any batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.errors import BadRequest

WINDOW = 16  # positions: caches grow by whole vector registers of float32
LONE_STEP = 32  # by which the only window of a single row grows


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

    def compile(self) -> bool:
        """Go over to compiled steps now instead of when it has been busy (`compiled`); whether steps are compiled."""
        return False


class KVStore:
    """Keys and values of every layer, of rows that begin at position 0 and are each of their own length.

    Positions are kept in windows of one vector register: keys as [windows, rows, heads, D / H, window], values as
    [windows, rows, heads, window, D / H]. For a single query both products of attention are then sums of weighted rows
    of a table, which `embedding_bag` adds up for all heads of all rows in one call, in the same order whatever stands
    beside a row. Matrix products, one for each head of each row, take up to three times as long. A new position of a
    row goes to lines of memory side by side, and a window that is begun moves nothing. All windows up to the longest
    row's are read. A store of one row has one window: there it is calls that cost, and little is moved when it grows.
    """

    def __init__(
        self, layers: int, heads: int, width: int, *, queries: int, rows: int, length: int, like: Tensor
    ) -> None:
        """So many heads of keys and values, each shared by queries / heads heads of queries; `length` is reserved."""
        self._shape, self._queries, self._scale = (layers, heads, width), queries, width**-0.5
        self._like, self.rows, self.length = like, 0, 0  # no rows yet
        self._sums_of = 0  # how many rows the sums are made for
        self.states: tuple[Tensor, ...] = ()  # keys and values, of all layers
        self._keys: tuple[Tensor, ...] = ()
        self._values: tuple[Tensor, ...] = ()
        self._move(rows, 1 if rows == 1 else length)
        self._fit(1)

    def mask(self, places: Any) -> Tensor:
        """What the position of each row (a number, or a tensor [B]) may see: [B, 1, length]."""
        return self._masks[self.length - 1 - places].view(-1, 1, self.length)

    def write(self, layer: int, rows: Any, places: tuple[Any, Any], keys: Tensor, values: Tensor) -> None:
        """Keep keys and values [B, H, D / H] of one position of each row, at windows and places inside (`split`)."""
        window, inside = places
        self._keys[layer][window, rows, :, :, inside] = keys
        self._values[layer][window, rows, :, inside] = values

    def fill(self, layer: int, row: int, keys: Tensor, values: Tensor) -> None:
        """Keep the first keys and values [H, S, D / H] of a row."""
        heads, count, width = keys.shape
        windows = -(-count // self._window)
        padding = (0, 0, 0, windows * self._window - count)
        for kept, states in ((self._keys[layer].transpose(3, 4), keys), (self._values[layer], values)):
            kept[:windows, row] = F.pad(states, padding).view(heads, windows, self._window, width).transpose(0, 1)

    def row(self, layer: int, row: int) -> tuple[Tensor, Tensor]:
        """Keys and values [H, length, D / H] of a row."""
        kept = self._keys[layer].transpose(3, 4), self._values[layer]
        keys, values = (each[: self._windows, row].transpose(0, 1).flatten(1, 2) for each in kept)
        return keys, values

    def split(self, places: Any) -> tuple[Any, Any]:
        """The window of positions, a number or a tensor, and the place inside it."""
        return places // self._window, places % self._window

    def attend(self, layer: int, query: Tensor, mask: Tensor) -> Tensor:
        """One query [B, H, D / H] of each of the first rows to what it reads [B, D]; mask [B, 1, length]."""
        count, heads, width = query.shape
        if self._sums_of != count:
            self._sums_of, (self._key_sums, self._value_sums) = count, self._sums(count)
        repeated = query if self._windows == 1 else query.repeat(1, 1, self._windows)  # for each window
        scores = self._key_sums(self._keys[layer].view(-1, self._window), repeated.reshape(-1))
        weights = torch.add(mask, scores.view(count, heads, self.length), alpha=self._scale).softmax(2)
        return self._value_sums(self._values[layer].view(-1, width), weights.view(-1)).view(count, -1)

    def move_row(self, source: int, target: int) -> None:
        for kept in (*self._keys, *self._values):
            kept[: self._windows, target] = kept[: self._windows, source]

    def ensure(self, rows: int, length: int) -> None:
        """Make room for so many rows of such a length."""
        if rows <= self.rows and length <= self.length:
            return
        if rows > self.rows:
            self._move(max(rows, 2 * self.rows), max(length, self._room))  # twice as many, so that few moves are needed
        elif length > self._room:
            self._move(self.rows, length if self.rows == 1 else 2 * length)
        self._fit(max(length, self.length))

    def _move(self, rows: int, room: int) -> None:
        """Take room for so many rows of so many positions, and bring there what is kept."""
        layers, heads, width = self._shape
        kept = [[self.row(layer, row) for row in range(self.rows)] for layer in range(layers)]
        self._room = whole_windows(max(room, self.length), LONE_STEP)
        self.rows, self._window = rows, self._room if rows == 1 else WINDOW
        size = (layers, self._room // self._window, rows, heads)
        self.states = _zeros((*size, width, self._window), self._like), _zeros((*size, self._window, width), self._like)
        self._keys, self._values = (each.unbind() for each in self.states)
        for layer, states in enumerate(kept):
            for row, (keys, values) in enumerate(states):
                self.fill(layer, row, keys, values)

    def _fit(self, length: int) -> None:
        """Whole windows, and masks of them: row r is a view of a step from 0 to minus infinity that begins r later."""
        self.length = whole_windows(length, self._window)
        self._windows = self.length // self._window
        edge = torch.cat([self._like.new_zeros(self.length), self._like.new_full((self.length,), float("-inf"))])
        self._masks = edge.unfold(0, self.length, 1)
        self._sums_of = 0

    def _sums(self, count: int) -> "list[_WeightedSums]":
        """For so many rows, those over the numbers of a key, window by window, and those over positions."""
        _, heads, width = self._shape
        whole: dict[str, Any] = {"device": self._like.device, "dtype": torch.int32}
        blocks = torch.arange(count * heads, **whole).repeat_interleave(self._queries // heads)  # of each query's head
        windows = torch.arange(self._windows, **whole) * (self.rows * heads)
        parts = blocks[:, None] + windows  # [B * H, windows]
        return [_WeightedSums(parts, width, bag=width), _WeightedSums(parts, self._window, bag=self.length)]


class _WeightedSums:
    """Sums over bags of rows of a table, each row times its weight."""

    def __init__(self, parts: Tensor, size: int, *, bag: int) -> None:
        """Numbers of the parts of the table [N, windows], which are of `size` rows each; `bag` rows are one sum."""
        inside = torch.arange(size, device=parts.device, dtype=torch.int32)
        self._rows = (parts.unsqueeze(-1) * size + inside).flatten()
        self._ends = torch.arange(0, len(self._rows) + 1, bag, device=parts.device, dtype=torch.int32)

    def __call__(self, table: Tensor, weights: Tensor) -> Tensor:
        """A table [_, C] and weights [N * bag] to sums [N, C]."""
        return torch.embedding_bag(table, self._rows, self._ends, False, 0, False, weights, True)[0]


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros from NumPy, which asks for huge pages: a cache that is read whole at every step is then read faster."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    return torch.from_numpy(np.zeros(shape, dtype=np.float32)).to(like.dtype)


def whole_windows(length: int, window: int = WINDOW) -> int:
    """The length, filled up to whole windows."""
    return -(-length // window) * window
