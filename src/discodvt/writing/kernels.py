"""Kernels of a decoding step, compiled by Numba (extra `fast`): all layers of some rows in one call.

A step of a small model in PyTorch is some hundred calls, and its matrix products are not made for a few rows. Here
matrices are stored as panels of 16 outputs [inputs, 16], in float32 or in 16 bits (`compiled.pack`), and a tile of the
product stays in registers. Every sum runs over its inputs in the same order, whatever the number of rows: a row has the
same bits alone and in any company. Compiled code is kept on disk beside this file or in the user's cache directory.
"""

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

exact: Any = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
summing: Any = njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy")


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


def _tile(rows: int, panels: int) -> Any:
    """A tile of a product in registers: x[row : row + rows] times so many panels, times the scale, plus the bias."""

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing: Any, x: Any, row: Any, weights: Any, panel: Any, scale: Any, bias: Any, out: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def array(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, arguments[number])

            def spread(value: Any) -> Any:
                nothing, zeros = ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_WHOLE, [0] * LANES)
                return builder.shuffle_vector(
                    builder.insert_element(nothing, value, ir.Constant(_I32, 0)), nothing, zeros
                )

            def at(data: Any, *terms: Any) -> Any:
                """Address of the sum of products of pairs."""
                place = ir.Constant(_I64, 0)
                for left, right in terms:
                    place = builder.add(place, builder.mul(left, right))
                return builder.gep(data, [place])

            def vector(address: Any, kind: Any = _VECTOR) -> Any:
                return builder.load(builder.bitcast(address, kind.as_pointer()), align=kind.element.get_abi_size(layout))

            layout = context.target_data
            halves = signature.args[2].dtype == types.int16
            stored = ir.VectorType(ir.IntType(16), LANES) if halves else _VECTOR
            x_array, w_array, bias_array, out_array = (array(number) for number in (0, 2, 5, 6))
            inputs, stride, columns = (
                builder.extract_value(each.shape, 1) for each in (w_array, x_array, out_array)
            )
            lanes, one = ir.Constant(_I64, LANES), ir.Constant(_I64, 1)
            row_numbers = [builder.add(arguments[1], ir.Constant(_I64, number)) for number in range(rows)]
            panel_numbers = [builder.add(arguments[3], ir.Constant(_I64, number)) for number in range(panels)]
            x_rows = [at(x_array.data, (number, stride)) for number in row_numbers]
            blocks = [at(w_array.data, (builder.mul(number, inputs), lanes)) for number in panel_numbers]
            zero = ir.Constant(_VECTOR, [0.0] * LANES)
            sums = [[cgutils.alloca_once_value(builder, zero) for _ in blocks] for _ in x_rows]
            kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
            multiply_add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
            with cgutils.for_range(builder, inputs) as loop:
                factors = []
                for block in blocks:
                    factor = vector(at(block, (loop.index, lanes)), stored)
                    if halves:
                        shift, mask = (ir.Constant(_WHOLE, [bits] * LANES) for bits in (SHIFT, MASK))
                        factor = builder.and_(builder.shl(builder.sext(factor, _WHOLE), shift), mask)
                        factor = builder.bitcast(factor, _VECTOR)
                    factors.append(factor)
                for x_row, row_sums in zip(x_rows, sums, strict=True):
                    value = spread(builder.load(at(x_row, (loop.index, one))))
                    for factor, total in zip(factors, row_sums, strict=True):
                        builder.store(builder.call(multiply_add, [value, factor, builder.load(total)]), total)
            factor = spread(arguments[4])
            for place, panel_number in enumerate(panel_numbers):
                first = (panel_number, lanes)
                added = vector(at(bias_array.data, first))
                for row_number, row_sums in zip(row_numbers, sums, strict=True):
                    product = builder.call(multiply_add, [builder.load(row_sums[place]), factor, added])
                    target = builder.bitcast(at(out_array.data, (row_number, columns), first), _VECTOR.as_pointer())
                    builder.store(product, target, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, weights, types.int64, types.float32, bias, out), emit

    return tile


_one_by_four, _one, _four, _six = _tile(1, 4), _tile(1, 1), _tile(4, 1), _tile(6, 1)


@intrinsic  # type: ignore[untyped-decorator]
def _as_float(typing: Any, bits: Any) -> Any:
    """The float32 of these bits."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.int32), emit


@exact
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


@exact
def _times(x: Any, matrices: Any, layer: int) -> Any:
    """x [B, K] times the matrix of a layer."""
    panels = matrices.panels[layer]
    out = np.empty((len(x), LANES * len(panels)), np.float32)
    multiply(x, panels, matrices.scales[layer], matrices.biases[layer], out)
    return out


@exact
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


@exact
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


@exact
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


@summing
def _rms_norm(x: Any, weight: Any, eps: Any, out: Any) -> None:
    total = np.float32(0.0)
    for n in range(len(weight)):
        total += x[n] * x[n]
    scale = np.float32(1.0) / np.sqrt(total / np.float32(len(weight)) + eps)
    for n in range(len(weight)):
        out[n] = x[n] * scale * weight[n]


@summing
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


@summing
def _total(values: Any) -> Any:
    total = np.float32(0.0)
    for n in range(len(values)):
        total += values[n]
    return total


@exact
def write(keys: Any, values: Any, row: int, place: int, new_keys: Any, new_values: Any) -> None:
    """Keep keys and values [kv heads * D / H] of a position of a row, as `KVStore` lays them out."""
    heads, width, size = keys.shape[2:]
    window, inside = place // size, place % size
    for head in range(heads):
        for n in range(width):
            keys[window, row, head, n, inside] = new_keys[head * width + n]
            values[window, row, head, inside, n] = new_values[head * width + n]


@exact
def attend(keys: Any, values: Any, row: int, length: int, query: Any, out: Any) -> None:
    """A query [H * D / H] of a row to what it reads [H * D / H] of the first positions of a layer of a `KVStore`."""
    kv_heads, width, size = keys.shape[2:]
    heads, windows = len(query) // width, (length + size - 1) // size
    scores = np.empty(windows * size, np.float32)
    factor = np.float32(1.0) / np.sqrt(np.float32(width))
    for head in range(heads):
        of_head = slice(head * width, (head + 1) * width)
        own, told, kv_head = query[of_head], out[of_head], head * kv_heads // heads
        for window in range(windows):
            block = keys[window, row, kv_head]
            part = scores[window * size : window * size + min(size, (length - window * size + 15) // 16 * 16)]
            part[:] = np.float32(0.0)
            for n in range(width):
                factor_n, line = own[n] * factor, block[n]
                for place in range(len(part)):
                    part[place] += factor_n * line[place]
        largest = scores[0]
        for place in range(1, length):
            largest = max(largest, scores[place])
        for place in range(length):
            scores[place] = _exp(scores[place] - largest)
        share = np.float32(1.0) / _total(scores[:length])
        told[:] = np.float32(0.0)
        for place in range(length):
            weight, line = scores[place] * share, values[place // size, row, kv_head, place % size]
            for n in range(width):
                told[n] += weight * line[n]


@exact
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


@exact
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
