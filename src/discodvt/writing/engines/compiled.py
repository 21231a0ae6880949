"""Compiled decoding steps (`kernels`) in place of PyTorch's, where Numba is installed and a model is small and busy.

Numba takes half a second to import, and seconds to compile where no compiled code is on the disk yet. A single story
does not win that back, so an engine goes over to compiled steps after `BUSY` steps, when about as much time could have
been saved as that takes, and only if they give PyTorch's logits. Models of `SINGLE_THREAD` weights and more stay with
PyTorch, which divides their matrices among threads; here the rows of a batch are divided.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discodvt.writing.engines.engine import Cache, Engine
from discodvt.writing.engines.layers import SINGLE_THREAD, kernels_for

if TYPE_CHECKING:
    from discodvt.writing.engines.kernels import Matrices

BUSY = 600  # steps
FEWEST_ROWS = 4  # of a thread
_TOLERANCE = 1e-4  # times the largest logit; rounding makes up to 3e-6
_TOP = -96  # the exponent of the largest number that 16 bits stand for

Floats = NDArray[np.float32]
Step = Callable[[Any, Sequence[int], Sequence[int]], Tensor]  # a cache and what `Cache.step` is given, to logits


class BusyStep:
    """The step of an engine: PyTorch's at first, a compiled one when it has been made often."""

    def __init__(self, engine: Engine, plain: Step, size: int, build: Callable[[], Step] | None) -> None:
        """PyTorch's step, for each row so many multiplications, and what makes the compiled one, if it can be."""
        self._engine, self._step, self._size, self._build = engine, plain, size, build
        self._made, self.compiled = 0, False

    def __call__(self, cache: Cache, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        self._made += 1
        if self._made == BUSY:
            self.compile()
        if self.compiled:
            return self._step(cache, last, positions)
        with kernels_for(len(last) * self._size):
            return self._step(cache, last, positions)

    @torch.inference_mode()
    def compile(self) -> bool:
        """Go over to compiled steps now, if that can be; returns whether steps are compiled."""
        self._made = max(self._made, BUSY)
        usable = self._size < SINGLE_THREAD and self._engine.device.type == "cpu"
        build, self._build = self._build, None  # tried once
        if build is None or not usable or not find_spec("numba"):
            return self.compiled
        from numba.core.errors import NumbaError

        try:
            step = build()
            self.compiled = self._agrees(step)
            problem: Any = "" if self.compiled else "their logits are not PyTorch's"
        except (NumbaError, RuntimeError, OSError) as error:  # a CPU it does not know, no place for compiled code
            problem = error
        if self.compiled:
            self._step = step
        elif problem:
            warnings.warn(f"steps are not compiled: {problem}", stacklevel=2)
        return self.compiled

    def _agrees(self, step: Step) -> bool:
        """Whether a step gives the logits of PyTorch's, for one row and for several."""
        cache = self._engine.new_cache(1, 8)
        for rows in (1, 7):
            for row in range(rows):
                cache.add_row(row, [0, 1, 2][: 1 + row % 3], None, (), 8)
            for position in range(3):
                symbols = [(row + position) % 4 for row in range(rows)]
                expected, found = (each(cache, symbols, [position] * rows) for each in (self._step, step))
                expected, found = (each.masked_fill(each.isneginf(), 0.0) for each in (expected, found))
                if not (expected - found).abs().max() <= _TOLERANCE * expected.abs().max():
                    return False
        return True


def packed(*kinds: Sequence[Any]) -> "list[Matrices]":
    """The layers of each kind (`Dense` or `HalfDense`) as panels: all in 16 bits if that is exact, else in float32."""
    from discodvt.writing.engines.kernels import Matrices

    parts = [[layer.parts() for layer in layers] for layers in kinds]
    weights = [np.stack([_panels(weight.numpy()) for weight, _ in layers]) for layers in parts]
    biases = [np.stack([_bias(len(weight), bias) for weight, bias in layers]) for layers in parts]
    short = [in_16_bits(each) for each in weights]
    if all(exactly for _, _, exactly in short):
        return [Matrices(codes, scales, bias) for (codes, scales, _), bias in zip(short, biases, strict=True)]
    ones = [np.ones(len(each), dtype=np.float32) for each in weights]
    return [Matrices(*each) for each in zip(weights, ones, biases, strict=True)]


def in_16_bits(weights: Floats) -> tuple[NDArray[np.int16], Floats, bool]:
    """Matrices [L, ...] as 16 bits, what each is to be multiplied by [L], and whether that is exact.

    The bits are those of a float32 of small exponent without its last 13 and its upper 3 exponent bits: to read them
    takes a shift and a mask. All numbers of half precision below 128 are among them, when scaled by a power of two.
    """
    largest = np.abs(weights).reshape(len(weights), -1).max(axis=1)
    powers = np.frexp(largest)[1] - 1 - _TOP
    shape = (-1,) + (1,) * (weights.ndim - 1)
    small = np.ldexp(weights, -powers.reshape(shape))
    bits = small.view(np.uint32)
    codes = (bits >> 16 & 0x8000 | bits >> 13 & 0x7FFF).astype(np.uint16).view(np.int16)
    exactly = not (bits & 0x70001FFF).any() and np.array_equal(np.ldexp(small, powers.reshape(shape)), weights)
    return codes, np.ldexp(np.float32(1.0), powers), exactly


def by_rows(run: Callable[[int, int], Floats], rows: int, multiplications: int) -> Tensor:
    """What a function gives for so many rows from a first one on; large batches are divided among threads."""
    threads = min(torch.get_num_threads(), rows // FEWEST_ROWS) if multiplications >= SINGLE_THREAD else 1
    if threads <= 1:
        return torch.from_numpy(run(0, rows))
    ends = [rows * number // threads for number in range(threads + 1)]
    sizes = [end - start for start, end in pairwise(ends)]
    return torch.from_numpy(np.concatenate(list(_pool(threads).map(run, ends[:-1], sizes))))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="step")


def _panels(weight: Floats) -> Floats:
    """A weight [N, K] as panels [N / 16, K, 16], filled up with zeros."""
    outputs, inputs = weight.shape
    filled = np.pad(weight, ((0, -outputs % 16), (0, 0)))
    return np.ascontiguousarray(filled.reshape(-1, 16, inputs).transpose(0, 2, 1))


def _bias(outputs: int, bias: Tensor | None) -> Floats:
    return np.pad(np.zeros(outputs, dtype=np.float32) if bias is None else bias.numpy(), (0, -outputs % 16))
