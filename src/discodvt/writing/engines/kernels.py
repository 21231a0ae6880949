"""Kernels of a decoding step, compiled by Numba (extra `fast`): all layers of some rows in one call.

A step of a small model in PyTorch is some hundred calls, and its matrix products are not made for a few rows. Here
matrices are stored as panels of 16 outputs [inputs, 16], in float32 or in 16 bits (`compiled.packed`); a tile of the
product stays in registers. Every sum runs over its inputs in the same order, whatever the number of rows: a row has the
same bits alone and in any company. Compiled code is kept on disk beside this file or in the user's cache directory;
all kernels are in one file, because Numba makes that code anew when the file of a function changes, not those it uses.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16  # outputs of a panel
SHIFT, MASK = 13, -0x70000001  # 16 bits to the sign, the low exponent bits and the upper fraction bits of a float32
_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_VECTOR, _WHOLE = ir.VectorType(_F32, LANES), ir.VectorType(_I32, LANES)

Compiler = Callable[[Callable[..., Any]], Any]
_exact: Compiler = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
_summing: Compiler = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")
_intrinsic: Compiler = intrinsic


class Matrices(NamedTuple):
    """One matrix of each layer: panels [L, N / 16, K, 16], which times their scale [L] are the weights; bias [L, N]."""

    panels: Any
    scales: Any
    biases: Any


class LlamaWeights(NamedTuple):
    qkv: Matrices
    out: Matrices
    gate_up: Matrices
    down: Matrices
    head: Matrices
    attention_norms: Any  # [L, D]
    mlp_norms: Any
    final_norm: Any  # [D]
    head_norms: Any  # [L, H + kv heads, D / H]; none of Qwen 3: L = 0
    rotates: Any  # [L]
    rotations: Any  # [positions, D / H], cosine and sine in turn
    eps: Any


class BartWeights(NamedTuple):
    qkv: Matrices
    self_out: Matrices
    query: Matrices
    cross_out: Matrices
    up: Matrices
    down: Matrices
    head: Matrices
    first_norm: Any  # [2, D], weight and bias
    self_norms: Any  # [L, 2, D]
    cross_norms: Any
    final_norms: Any
    activation: Any  # 0 GELU, 1 ReLU, 2 SiLU


class _Code:
    """Code of an intrinsic: its arguments, and vectors of 16 numbers."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder, self.arguments, self._types = builder, arguments, signature.args
        self.arrays = {
            number: context.make_array(kind)(context, builder, arguments[number])
            for number, kind in enumerate(signature.args)
            if isinstance(kind, types.Array)
        }
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        self._fma = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")

    def dimension(self, argument: int, dimension: int) -> Any:
        return self.builder.extract_value(self.arrays[argument].shape, dimension)

    def number(self, value: int) -> Any:
        return ir.Constant(_I64, value)

    def at(self, argument: int, *terms: Any) -> Any:
        """The address in an array that is the sum of some numbers, or of products of pairs."""
        place = self.number(0)
        for term in terms:
            place = self.builder.add(place, self.builder.mul(*term) if isinstance(term, tuple) else term)
        return self.builder.gep(self.arrays[argument].data, [place])

    def spread(self, value: Any) -> Any:
        """A number in all places of a vector."""
        nothing, zeros = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_WHOLE, [0] * LANES)
        first = self.builder.insert_element(nothing, value, ir.Constant(_I32, 0))
        return self.builder.shuffle_vector(first, nothing, zeros)

    def load(self, argument: int, *terms: Any) -> Any:
        """A vector of an array of float32 or of 16 bits."""
        halves = self._types[argument].dtype == types.int16
        stored = ir.VectorType(ir.IntType(16), LANES) if halves else _VECTOR
        address = self.builder.bitcast(self.at(argument, *terms), stored.as_pointer())
        loaded = self.builder.load(address, align=2 if halves else 4)
        if not halves:
            return loaded
        shift, mask = (ir.Constant(_WHOLE, [bits] * LANES) for bits in (SHIFT, MASK))
        bits = self.builder.and_(self.builder.shl(self.builder.sext(loaded, _WHOLE), shift), mask)
        return self.builder.bitcast(bits, _VECTOR)

    def store(self, value: Any, argument: int, *terms: Any) -> None:
        self.builder.store(value, self.builder.bitcast(self.at(argument, *terms), _VECTOR.as_pointer()), align=4)

    def fma(self, left: Any, right: Any, added: Any) -> Any:
        return self.builder.call(self._fma, [left, right, added])


def _tile(rows: int, panels: int) -> Any:
    """A tile of a product in registers: x[row : row + rows] times so many panels, times the scale, plus the bias."""

    @_intrinsic
    def tile(typing: Any, x: Any, row: Any, weights: Any, panel: Any, scale: Any, bias: Any, out: Any) -> Any:
        def emit(*parts: Any) -> None:
            code = _Code(*parts)
            builder, (_, first_row, _, first_panel, factor, _, _) = code.builder, code.arguments
            stride, inputs, columns = (code.dimension(*each) for each in ((0, 1), (2, 1), (6, 1)))
            lanes = code.number(LANES)
            row_starts = [builder.mul(builder.add(first_row, code.number(n)), stride) for n in range(rows)]
            panel_numbers = [builder.add(first_panel, code.number(n)) for n in range(panels)]
            blocks = [builder.mul(builder.mul(number, inputs), lanes) for number in panel_numbers]
            zero = ir.Constant(_VECTOR, [0.0] * LANES)
            sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(panels)] for _ in range(rows)]
            with cgutils.for_range(builder, inputs) as loop:
                factors = [code.load(2, block, (loop.index, lanes)) for block in blocks]
                for start, row_sums in zip(row_starts, sums, strict=True):
                    value = code.spread(builder.load(code.at(0, start, loop.index)))
                    for weight, total in zip(factors, row_sums, strict=True):
                        builder.store(code.fma(value, weight, builder.load(total)), total)
            for place, number in enumerate(panel_numbers):
                added = code.load(5, (number, lanes))
                for n, row_sums in enumerate(sums):
                    product = code.fma(builder.load(row_sums[place]), code.spread(factor), added)
                    code.store(product, 6, (builder.add(first_row, code.number(n)), columns), (number, lanes))

        return types.void(x, types.int64, weights, types.int64, types.float32, bias, out), emit

    return tile


def _weighted(vectors: int) -> Any:
    """Adds the lines of a block [K, N], times their weights [K], to `out`: so many vectors from a column on."""

    @_intrinsic
    def weighted(typing: Any, weights: Any, block: Any, column: Any, out: Any) -> Any:
        def emit(*parts: Any) -> None:
            code = _Code(*parts)
            builder, stride = code.builder, code.dimension(1, 1)
            columns = [builder.add(code.arguments[2], code.number(LANES * n)) for n in range(vectors)]
            sums = [cgutils.alloca_once_value(builder, code.load(3, column)) for column in columns]
            with cgutils.for_range(builder, code.dimension(0, 0)) as loop:
                weight = code.spread(builder.load(code.at(0, loop.index)))
                for column, total in zip(columns, sums, strict=True):
                    line = code.load(1, (loop.index, stride), column)
                    builder.store(code.fma(weight, line, builder.load(total)), total)
            for column, total in zip(columns, sums, strict=True):
                code.store(builder.load(total), 3, column)

        return types.void(weights, block, types.int64, out), emit

    return weighted


_weighted_one, _weighted_two = _weighted(1), _weighted(2)
_one_by_four, _one, _four, _six = _tile(1, 4), _tile(1, 1), _tile(4, 1), _tile(6, 1)


@_intrinsic
def _as_float(typing: Any, bits: Any) -> Any:
    """The float32 of these bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.int32), emit


@_exact
def multiply(x: Any, panels: Any, scale: Any, bias: Any, out: Any) -> None:
    """x [B, K] times a matrix plus its bias to `out` [B, N]; B is 1, or even and at least 4 (`padded`)."""
    rows, whole = len(x), len(panels) // 4 * 4
    if rows == 1:
        for panel in range(0, whole, 4):
            _one_by_four(x, 0, panels, panel, scale, bias, out)
        for panel in range(whole, len(panels)):
            _one(x, 0, panels, panel, scale, bias, out)
        return
    sixes = rows // 6 * 6
    if rows - sixes == 2:  # 6 + 2 is 4 + 4
        sixes -= 6
    for panel in range(len(panels)):
        for row in range(0, sixes, 6):
            _six(x, row, panels, panel, scale, bias, out)
        for row in range(sixes, rows, 4):
            _four(x, row, panels, panel, scale, bias, out)


def padded(rows: int) -> int:
    """How many rows a product of so many has."""
    return 1 if rows == 1 else max(4, rows + rows % 2)


@_exact
def _times(x: Any, matrices: Any, layer: int) -> Any:
    """x [B, K] times the matrix of a layer."""
    panels = matrices.panels[layer]
    out = np.empty((len(x), LANES * len(panels)), np.float32)
    multiply(x, panels, matrices.scales[layer], matrices.biases[layer], out)
    return out


@_exact
def _exp(x: Any) -> Any:
    """e to the x, to a unit in the last place or two."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    rounded = x * np.float32(1.44269504) + np.float32(12582912.0)  # the sum has no bits below 1
    power = rounded - np.float32(12582912.0)
    rest = (x - power * np.float32(0.693145752)) - power * np.float32(1.42860677e-6)
    value = np.float32(1.3981999e-3) * rest + np.float32(8.3334519e-3)
    value = value * rest + np.float32(4.1665796e-2)
    value = value * rest + np.float32(1.6666667e-1)
    value = value * rest + np.float32(0.5)
    value = value * (rest * rest) + rest + np.float32(1.0)
    return value * _as_float((np.int32(power) + np.int32(127)) << np.int32(23))


@_exact
def _erf(x: Any) -> Any:
    """The error function, to 2e-7 (Abramowitz and Stegun 7.1.26)."""
    size = abs(x)
    t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * size)
    value = np.float32(1.061405429) * t - np.float32(1.453152027)
    value = value * t + np.float32(1.421413741)
    value = value * t - np.float32(0.284496736)
    value = value * t + np.float32(0.254829592)
    value = np.float32(1.0) - value * t * _exp(-size * size)
    return -value if x < 0 else value


@_exact
def activate(x: Any, activation: int) -> None:
    """GELU, ReLU or SiLU of x [B, N] in place."""
    for row in range(len(x)):
        values = x[row]
        if activation == 0:
            for n in range(len(values)):
                v = values[n]
                values[n] = np.float32(0.5) * v * (np.float32(1.0) + _erf(v * np.float32(0.70710678)))
        elif activation == 1:
            for n in range(len(values)):
                values[n] = max(values[n], np.float32(0.0))
        else:
            for n in range(len(values)):
                values[n] = values[n] / (np.float32(1.0) + _exp(-values[n]))


@_summing
def _rms_norm(x: Any, weight: Any, eps: Any, out: Any) -> None:
    total = np.float32(0.0)
    for n in range(len(weight)):
        total += x[n] * x[n]
    scale = np.float32(1.0) / np.sqrt(total / np.float32(len(weight)) + eps)
    for n in range(len(weight)):
        out[n] = x[n] * scale * weight[n]


@_summing
def _layer_norm(x: Any, added: Any, norm: Any) -> None:
    """The LayerNorm of x + added, in x [B, D]."""
    width = x.shape[1]
    for row in range(len(x)):
        values, more = x[row], added[row]
        total = np.float32(0.0)
        for n in range(width):
            values[n] += more[n]
            total += values[n]
        mean, total = total / np.float32(width), np.float32(0.0)
        for n in range(width):
            values[n] -= mean
            total += values[n] * values[n]
        scale = np.float32(1.0) / np.sqrt(total / np.float32(width) + np.float32(1e-5))
        for n in range(width):
            values[n] = values[n] * scale * norm[0, n] + norm[1, n]


@_summing
def _total(values: Any) -> Any:
    total = np.float32(0.0)
    for n in range(len(values)):
        total += values[n]
    return total


@_exact
def write(keys: Any, values: Any, row: int, place: int, new_keys: Any, new_values: Any) -> None:
    """Keep keys and values [kv heads * D / H] of a position of a row, as `KVStore` lays them out."""
    heads, width, size = keys.shape[2:]
    window, inside = place // size, place % size
    for head in range(heads):
        for n in range(width):
            keys[window, row, head, n, inside] = new_keys[head * width + n]
            values[window, row, head, inside, n] = new_values[head * width + n]


@_exact
def _add_weighted(weights: Any, block: Any, columns: int, out: Any) -> None:
    """Add the first lines of a block [K or more, N], times their weights [K], to `out`, up to a column."""
    whole, pairs = columns // LANES * LANES, columns // (2 * LANES) * (2 * LANES)
    for column in range(0, pairs, 2 * LANES):
        _weighted_two(weights, block, column, out)
    for column in range(pairs, whole, LANES):
        _weighted_one(weights, block, column, out)
    for k in range(len(weights)):
        for column in range(whole, columns):
            out[column] += weights[k] * block[k, column]


@_exact
def attend(keys: Any, values: Any, row: int, length: int, query: Any, out: Any) -> None:
    """A query [H * D / H] of a row to what it reads [H * D / H] of the first positions of a layer of a `KVStore`."""
    kv_heads, width, size = keys.shape[2:]
    heads, windows = len(query) // width, (length + size - 1) // size
    scores = np.zeros((heads, windows * size), np.float32)
    for window in range(windows):
        start = window * size
        columns = min(size, (length - start + LANES - 1) // LANES * LANES)
        for head in range(heads):
            block = keys[window, row, head * kv_heads // heads]
            _add_weighted(query[head * width : (head + 1) * width], block, columns, scores[head, start:])
    factor = np.float32(1.0) / np.sqrt(np.float32(width))
    for head in range(heads):
        own = scores[head, :length]
        largest = own[0]
        for place in range(1, length):
            largest = max(largest, own[place])
        for place in range(length):
            own[place] = _exp((own[place] - largest) * factor)
        share = np.float32(1.0) / _total(own)
        for place in range(length):
            own[place] *= share
    out[:] = np.float32(0.0)
    for window in range(windows):
        start, end = window * size, min(length, (window + 1) * size)
        for head in range(heads):
            block = values[window, row, head * kv_heads // heads]
            _add_weighted(scores[head, start:end], block, width, out[head * width : (head + 1) * width])


@_exact
def llama_step(x: Any, first: int, places: Any, model: Any, keys: Any, values: Any) -> Any:
    """Inputs [B or more, D] of rows from `first` on and their positions [B] to logits [B or more, V or more].

    Keys and values are all layers of a `KVStore`: [L, windows, rows, kv heads, D / H, window] and with the last two
    dimensions exchanged.
    """
    layers, _, _, kv_heads, size, _ = keys.shape
    width, inner = x.shape[1], model.down.panels.shape[2]
    queries = model.out.panels.shape[2]
    ends = queries + kv_heads * size
    normed, mixed = np.zeros_like(x), np.zeros((len(x), queries), np.float32)
    mlp = np.zeros((len(x), inner), np.float32)
    for layer in range(layers):
        for row in range(len(places)):
            _rms_norm(x[row], model.attention_norms[layer], model.eps, normed[row])
        qkv = _times(normed, model.qkv, layer)
        for row in range(len(places)):
            own, place = qkv[row], places[row]
            if len(model.head_norms):
                for head in range(ends // size):
                    part = own[head * size : (head + 1) * size]
                    _rms_norm(part, model.head_norms[layer, head], model.eps, part)
            if model.rotates[layer]:
                turn = model.rotations[place]
                for pair in range(ends // 2):
                    n, m = 2 * pair, 2 * pair % size
                    real, imaginary, cosine, sine = own[n], own[n + 1], turn[m], turn[m + 1]
                    own[n], own[n + 1] = real * cosine - imaginary * sine, real * sine + imaginary * cosine
            write(keys[layer], values[layer], first + row, place, own[queries:ends], own[ends:])
            attend(keys[layer], values[layer], first + row, place + 1, own[:queries], mixed[row])
        added = _times(mixed, model.out, layer)
        for row in range(len(places)):
            for n in range(width):
                x[row, n] += added[row, n]
            _rms_norm(x[row], model.mlp_norms[layer], model.eps, normed[row])
        gate_up = _times(normed, model.gate_up, layer)
        for row in range(len(places)):
            for n in range(inner):
                gate = gate_up[row, n]
                mlp[row, n] = gate / (np.float32(1.0) + _exp(-gate)) * gate_up[row, inner + n]
        added = _times(mlp, model.down, layer)
        for row in range(len(places)):
            for n in range(width):
                x[row, n] += added[row, n]
    for row in range(len(places)):
        _rms_norm(x[row], model.final_norm, model.eps, normed[row])
    return _times(normed, model.head, 0)


@_exact
def bart_step(
    x: Any, first: int, places: Any, prompts: Any, model: Any, keys: Any, values: Any, prompt_keys: Any,
    prompt_values: Any,
) -> Any:  # fmt: skip
    """The same for a BART, whose rows have prompts of such lengths [B], with keys and values of their own."""
    width = x.shape[1]
    mixed = np.zeros_like(x)
    _layer_norm(x, mixed, model.first_norm)
    for layer in range(len(keys)):
        qkv = _times(x, model.qkv, layer)
        for row in range(len(places)):
            own, place = qkv[row], places[row]
            write(keys[layer], values[layer], first + row, place, own[width : 2 * width], own[2 * width :])
            attend(keys[layer], values[layer], first + row, place + 1, own[:width], mixed[row])
        _layer_norm(x, _times(mixed, model.self_out, layer), model.self_norms[layer])
        query = _times(x, model.query, layer)
        for row in range(len(places)):
            attend(prompt_keys[layer], prompt_values[layer], first + row, prompts[row], query[row, :width], mixed[row])
        _layer_norm(x, _times(mixed, model.cross_out, layer), model.cross_norms[layer])
        inner = _times(x, model.up, layer)
        activate(inner, model.activation)
        _layer_norm(x, _times(inner, model.down, layer), model.final_norms[layer])
    return _times(x, model.head, 0)
