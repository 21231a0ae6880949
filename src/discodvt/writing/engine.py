"""What writing needs of a model: an engine reads a prompt into a row of its cache and extends all rows by one symbol.

Symbols are the subwords of a story, or the codes of a plan. Engines: `bart`, `llama` (CPU, bare weights) and
`transformers_engine` (every causal model, GPUs). A row's numbers must not depend on its neighbours: prompts are read
alone, and attention sees windows of whole vector registers, closed by a mask. So on a CPU batches of two and more give
the same bits; a single row takes other kernels of the BLAS, which round otherwise in the last bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from discodvt.errors import BadRequest

WINDOW = 16  # attention windows grow by a vector register of float32


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
    """Keys and values of every layer, of rows that begin at position 0 and are each of their own length."""

    def __init__(self, layers: int, heads: int, width: int, *, rows: int, length: int, like: Tensor) -> None:
        self.length = whole_windows(length)
        self.layers = [like.new_zeros(2, rows, heads, self.length, width) for _ in range(layers)]
        self._like, self._views = like, (0, 0, [(like, like, like)])
        self._grow_mask()

    @property
    def rows(self) -> int:
        return self.layers[0].shape[1]

    def view(self, count: int, window: int) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each layer the whole store, and keys and values [B, H, window, D / H] of the first rows.

        The same views serve until one of the two numbers changes.
        """
        if self._views[:2] != (count, window):
            views = [(layer, layer[0, :count, :, :window], layer[1, :count, :, :window]) for layer in self.layers]
            self._views = (count, window, views)
        return self._views[2]

    def mask(self, places: Any, window: int) -> Tensor:
        """What the position of each row (a number, or a tensor [B]) may see: [B, 1, 1, window]."""
        return self._masks[self.length - 1 - places, :window].view(-1, 1, 1, window)

    def move_row(self, source: int, target: int) -> None:
        for layer in self.layers:
            layer[:, target] = layer[:, source]

    def ensure(self, rows: int, length: int) -> bool:
        """Make room for so many rows of such a length; whether more was needed."""
        more_rows, more_length = max(0, rows - self.rows), max(0, whole_windows(length) - self.length)
        if more_rows:
            more_rows = max(more_rows, self.rows)  # twice as many, so that few moves are needed
        if not more_rows and not more_length:
            return False
        shape = list(self.layers[0].shape)
        shape[1] += more_rows
        shape[3] += more_length
        for number, layer in enumerate(self.layers):
            self.layers[number] = larger = layer.new_zeros(shape)
            larger[:, : layer.shape[1], :, : layer.shape[3]] = layer
        self.length += more_length
        self._views = (0, 0, [])
        self._grow_mask()
        return True

    def _grow_mask(self) -> None:
        """A step from 0 to minus infinity; row r of `_masks` is a view of it that begins r later."""
        self._edge = torch.cat([self._like.new_zeros(self.length), self._like.new_full((self.length,), float("-inf"))])
        self._masks = self._edge.unfold(0, self.length, 1)


def whole_windows(length: int) -> int:
    """The length, filled up to whole windows."""
    return -(-length // WINDOW) * WINDOW
