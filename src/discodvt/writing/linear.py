"""The layers decoding is made of, made for a few rows at a time: float32, or int8 where that is faster."""

import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.errors import BadRequest
from discodvt.writing.weights import Weights

LARGE = 400_000  # weights; for smaller matrices a special kernel costs more than it saves
_TINY = 1e-12

Norm = Callable[[Tensor], Tensor]


class Dense:
    """x W + b with W stored [in, out]: for a few rows up to twice as fast, and the same bits from two rows on."""

    __slots__ = ("_bias", "_weight", "size")

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """Weight [out, in] and bias [out], as they are stored."""
        self.size = weight.numel()
        self._weight = weight.t().contiguous()
        self._bias = bias

    def __call__(self, x: Tensor) -> Tensor:
        return torch.addmm(self._bias, x, self._weight)


class HalfDense:
    """The same for weights that are stored in half precision: float32 arithmetic on half the memory traffic."""

    __slots__ = ("_packed", "size")

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.size = weight.numel()
        self._packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)

    @staticmethod
    def fits(weight: Tensor) -> bool:
        """Whether these weights lose nothing, and this machine has the kernel (x86 with AVX2)."""
        kernel = weight.device.type == "cpu" and torch.backends.quantized.engine in ("x86", "fbgemm")
        return kernel and torch.equal(weight.half().float(), weight)

    def __call__(self, x: Tensor) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self._packed)
        return product


class Int8Dense:
    """The same with weights of 8 bits, one scale for each output, and inputs of 8 bits, one scale for each row.

    PyTorch's kernel has one scale for all rows, so that a story would depend on its neighbours: rows are brought to
    the same range first, and a row that spans it goes with them.
    """

    __slots__ = ("_bias", "_packed", "_span", "size")

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self.size = weight.numel()
        scales = weight.abs().amax(1).clamp_min(_TINY).double() / 127
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # PyTorch announces that this will move to another package
            quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantised, None)
        self._bias = bias
        self._span = torch.zeros(1, weight.shape[1])
        self._span[0, 0], self._span[0, -1] = -1.0, 1.0

    def __call__(self, x: Tensor) -> Tensor:
        scales = x.abs().amax(1, keepdim=True).clamp_min(_TINY)
        product = torch.ops.quantized.linear_dynamic(torch.cat([self._span, x / scales]), self._packed, False)
        return torch.addcmul(self._bias, product[1:], scales)


Linear = Dense | HalfDense | Int8Dense


def linear(weight: Tensor, bias: Tensor, *, int8: bool) -> Linear:
    """The layer that is fastest for this weight [out, in]; int8 only where it was asked for."""
    if weight.numel() < LARGE:
        return Dense(weight, bias)
    if int8:
        return Int8Dense(weight, bias)
    return HalfDense(weight, bias) if HalfDense.fits(weight) else Dense(weight, bias)


def fused(weights: Weights, *names: str, int8: bool) -> Linear:
    """Layers that share their input, as one."""
    weight, bias = (torch.cat([weights[f"{name}.{kind}"] for name in names]) for kind in ("weight", "bias"))
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
