"""The layers of decoding, for a few rows at a time: matrix products in float32, on half-precision weights, or in int8.

Which kernels a machine has is found by a numeric check, not by the name of its CPU.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.checkpoints import Weights
from discodvt.errors import BadRequest

LARGE = 80_000  # weights; for smaller matrices the kernel for half precision costs more than it saves
LARGE_INT8 = 200_000  # the same for int8
SINGLE_THREAD = 20_000_000  # multiplications; below, threads that wait for each other cost more than they bring
_TINY = 1e-12
_ONEDNN: Any = torch.backends.mkldnn

Norm = Callable[[Tensor], Tensor]


class Dense:
    """x W + b with W stored [in, out]: for a few rows up to twice as fast, and the same bits from two rows on."""

    __slots__ = ("_bias", "_weight", "size")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """Weight [out, in] and bias [out], as they are stored."""
        self.size = weight.numel()
        self._weight = weight.t().contiguous()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return torch.mm(x, self._weight) if self._bias is None else torch.addmm(self._bias, x, self._weight)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x W + b."""
        total = torch.addmm(residual, x, self._weight)
        return total if self._bias is None else total.add_(self._bias)

    def parts(self) -> tuple[Tensor, Tensor | None]:
        """Weight [out, in] and bias [out]."""
        return self._weight.t(), self._bias


class HalfDense:
    """The same for weights that are stored in half precision: float32 arithmetic on half the memory traffic."""

    __slots__ = ("_packed", "size")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.size = weight.numel()
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed)
        return product

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)

    def parts(self) -> tuple[Tensor, Tensor | None]:
        weight, bias = torch.ops.quantized.linear_unpack_fp16(self._packed)
        return weight, bias


class Int8Dense:
    """The same with weights of 8 bits, one scale for each output, and inputs of 8 bits, one scale for each row.

    PyTorch's kernel has one scale for all rows, so that a story would depend on its neighbours: rows are brought to
    the same range first, and a row that spans it goes with them.
    """

    __slots__ = ("_bias", "_packed", "_span", "size")

    def __init__(self, weight: Tensor, bias: Tensor | None, *, levels: int) -> None:
        """Weights are rounded to whole numbers of -levels to levels, times the scale of their output."""
        self.size = weight.numel()
        scales = weight.abs().amax(1).clamp_min(_TINY).double() / levels
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # PyTorch announces that this will move to another package
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._bias = bias
        self._span = torch.zeros(1, weight.shape[1])
        self._span[0, 0], self._span[0, -1] = -1.0, 1.0

    def __call__(self, x: Tensor) -> Tensor:
        scales = x.abs().amax(1, keepdim=True).clamp_min(_TINY)
        product = torch.ops.quantized.linear_dynamic(torch.cat([self._span, x / scales]), self._packed, False)
        return product[1:] * scales if self._bias is None else torch.addcmul(self._bias, product[1:], scales)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)


@cache
def int8_levels(engine: str) -> int | None:
    """The largest weight the int8 kernel of a quantized engine multiplies right on this CPU; None: no such kernel.

    x86 CPUs without VNNI add pairs of products in 16 bits, which overflow with weights above 63. Weights are what is
    kept in 7 bits there: with inputs in 7 bits (`reduce_range`) the storyteller's encoder is 1.3 times further off.
    """
    return next((levels for levels in (127, 63) if _multiplies(partial(Int8Dense, levels=levels), engine)), None)


@cache
def has_half_kernel(engine: str) -> bool:
    """Whether the engine multiplies with weights in half precision."""
    return _multiplies(HalfDense, engine)


def _multiplies(kind: Callable[[Tensor, Tensor], "Linear"], engine: str) -> bool:
    """Whether a layer gets the largest products right, to the last but one of 8 bits."""
    if engine == "none":
        return False
    try:
        product = kind(torch.ones(64, 64), torch.zeros(64))(torch.ones(2, 64))
    except RuntimeError:  # the engine has no such kernel
        return False
    return torch.allclose(product, torch.full_like(product, 64.0), rtol=2 / 256)


Linear = Dense | HalfDense | Int8Dense


def linear(weight: Tensor, bias: Tensor | None, *, int8: bool) -> Linear:
    """The layer that is fastest for this weight [out, in]; int8 only where it was asked for."""
    size, engine = weight.numel(), torch.backends.quantized.engine
    if weight.device.type != "cpu" or size < LARGE:
        return Dense(weight, bias)
    if int8 and size >= LARGE_INT8 and (levels := int8_levels(engine)):
        return Int8Dense(weight, bias, levels=levels)
    if has_half_kernel(engine) and torch.equal(weight.half().float(), weight):
        return HalfDense(weight, bias)
    return Dense(weight, bias)


def fused(weights: Weights, *names: str, int8: bool) -> Linear:
    """Layers that share their input, as one; all with a bias, or none."""
    weight = torch.cat([weights[f"{name}.weight"] for name in names])
    has_bias = f"{names[0]}.bias" in weights
    bias = torch.cat([weights[f"{name}.bias"] for name in names]) if has_bias else None
    return linear(weight, bias, int8=int8)


def norm(weights: Weights, name: str) -> Norm:
    """A LayerNorm over the last dimension."""
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return partial(torch.layer_norm, normalized_shape=(len(weight),), weight=weight, bias=bias)


def activation(name: str) -> Callable[[Tensor], Tensor]:
    known: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu, "tanh": torch.tanh}
    if name not in known:
        raise BadRequest(f"config.json: activation_function {name!r}; the writer knows {', '.join(known)}")
    return known[name]


@contextmanager
def kernels_for(multiplications: int) -> Iterator[None]:
    """All threads, or one where the work is small; never oneDNN, which takes longer to find its GELU than a row takes.

    A switch is put back only by the caller that turned it, so that writers in several threads leave both as they found
    them. Turning them takes about a microsecond.
    """
    threads, onednn = torch.get_num_threads(), _ONEDNN.enabled
    alone = multiplications < SINGLE_THREAD and threads > 1
    if alone:
        torch.set_num_threads(1)
    if onednn:
        _ONEDNN.enabled = False
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(threads)
        if onednn:
            _ONEDNN.enabled = True
