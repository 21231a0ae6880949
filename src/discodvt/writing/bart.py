"""A BART for writing: an encoder that reads a prompt, a decoder that goes one position at a time.

The weights are Hugging Face's, and so are the numbers but for their last bits; the calls are a tenth. Queries, keys
and values come from one matrix; keys and values go to places reserved for them (`KVCache`); those of the prompt are
computed once. A story's numbers should not depend on its neighbours: prompts are read alone, and attention sees windows
of whole vector registers, closed by a mask. So on a CPU batches of two and more give the same bits; a single row takes
other kernels of the BLAS, which round otherwise in the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.checkpoints import Weights
from discodvt.errors import BadRequest
from discodvt.writing.layers import Linear, Norm, activation, fused, kernels_for, linear, norm

WINDOW = 16  # attention windows grow by a vector register of float32
_OFFSET = 2  # BART's position 0 is row 2 of its table


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers of `config.json` that the weights do not tell."""

    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    activation: Callable[[Tensor], Tensor]
    embed_scale: float

    @classmethod
    def of(cls, config: dict[str, Any]) -> "Shape":
        try:
            return cls(
                encoder_layers=config["encoder_layers"],
                decoder_layers=config["decoder_layers"],
                encoder_heads=config["encoder_attention_heads"],
                decoder_heads=config["decoder_attention_heads"],
                activation=activation(config.get("activation_function", "gelu")),
                embed_scale=config["d_model"] ** 0.5 if config.get("scale_embedding") else 1.0,
            )
        except KeyError as error:
            raise BadRequest(
                f"config.json: no {error.args[0]} in it; give a directory `discodvt train` wrote"
            ) from None


@dataclass(slots=True, kw_only=True)
class _Layer:
    """What a layer of the encoder has, and one of the decoder too."""

    qkv: Linear
    self_out: Linear
    self_norm: Norm
    up: Linear
    down: Linear
    final_norm: Norm

    @property
    def size(self) -> int:
        return self.qkv.size + self.self_out.size + self.up.size + self.down.size


def _shared_parts(weights: Weights, dense: Callable[..., Linear]) -> dict[str, Any]:
    return {
        "qkv": dense(weights, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "self_out": dense(weights, "self_attn.out_proj"),
        "self_norm": norm(weights, "self_attn_layer_norm"),
        "up": dense(weights, "fc1"),
        "down": dense(weights, "fc2"),
        "final_norm": norm(weights, "final_layer_norm"),
    }


class Encoder:
    """Reads one prompt at a time."""

    def __init__(self, weights: Weights, embedding: Tensor, shape: Shape, *, int8: bool) -> None:
        dense = partial(fused, int8=int8)
        self._embedding = embedding * shape.embed_scale
        self._positions = weights["embed_positions.weight"][_OFFSET:]
        self._norm = norm(weights, "layernorm_embedding")
        self._heads, self._activation = shape.encoder_heads, shape.activation
        layers = (weights.under(f"layers.{number}.") for number in range(shape.encoder_layers))
        self._layers = [_Layer(**_shared_parts(layer, dense)) for layer in layers]
        self.size = sum(layer.size for layer in self._layers)

    @torch.inference_mode()
    def __call__(self, ids: Tensor) -> Tensor:
        """Subwords [N] to states [N, D]."""
        x = self._norm(F.embedding(ids, self._embedding) + self._positions[: len(ids)])
        for layer in self._layers:
            query, key, value = layer.qkv(x).view(len(ids), 3, self._heads, -1).permute(1, 2, 0, 3)  # [H, N, D / H]
            mixed = F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
            x = layer.self_norm(x + layer.self_out(mixed.transpose(0, 1).reshape(x.shape)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))
        return x


@dataclass(slots=True, kw_only=True)
class _DecoderLayer(_Layer):
    query: Linear
    prompt_kv: Linear
    cross_out: Linear
    cross_norm: Norm


class Decoder:
    """Extends the sequences of a cache by one symbol each; a symbol whose bias is minus infinity is never sampled."""

    def __init__(
        self, weights: Weights, embedding: Tensor, head: Tensor, bias: Tensor, shape: Shape, *, int8: bool
    ) -> None:
        """Embedding and output layer [V, D], mostly the same weights, and the logits' bias [V]."""
        dense = partial(fused, int8=int8)
        self.heads, self.width = shape.decoder_heads, embedding.shape[1]
        self.positions = weights["embed_positions.weight"][_OFFSET:]
        self._embedding = embedding * shape.embed_scale
        self._norm = norm(weights, "layernorm_embedding")
        self._activation = shape.activation
        self._head = linear(head, bias, int8=int8)
        self.layers = [
            _DecoderLayer(
                query=dense(layer, "encoder_attn.q_proj"),
                prompt_kv=dense(layer, "encoder_attn.k_proj", "encoder_attn.v_proj"),
                cross_out=dense(layer, "encoder_attn.out_proj"),
                cross_norm=norm(layer, "encoder_attn_layer_norm"),
                **_shared_parts(layer, dense),
            )
            for layer in (weights.under(f"layers.{number}.") for number in range(shape.decoder_layers))
        ]
        self.size = self._head.size + sum(layer.size + layer.query.size + layer.cross_out.size for layer in self.layers)

    @torch.inference_mode()
    def prompt(self, states: Tensor) -> list[Tensor]:
        """Keys and values [2, H, N, D / H] of an encoded prompt [N, D], for each layer."""
        shape = (len(states), 2, self.heads, self.width // self.heads)
        return [layer.prompt_kv(states).view(shape).permute(1, 2, 0, 3) for layer in self.layers]

    def step(self, cache: "KVCache", last: list[int], positions: list[int]) -> Tensor:
        """The last symbols of the first B rows, and how many each has, to logits [B, V] of the next."""
        count, window = len(last), -(-(max(positions) + 1) // WINDOW) * WINDOW
        causal, prompt_mask, caches, prompts = cache.view(count, window)
        rows: Any = 0  # a single row is addressed by numbers, which is faster than by tensors of one number
        places: Any = positions[0]
        if count > 1:
            rows, places = torch.tensor([list(range(count)), positions], device=causal.device)
        mask = causal[places].view(count, 1, 1, window)
        symbols = torch.tensor(last, device=causal.device)
        heads = (count, -1, self.heads, self.width // self.heads)
        x = self._norm(F.embedding(symbols, self._embedding) + cache.control[rows, places])
        for layer, (stored, keys, values), prompt in zip(self.layers, caches, prompts, strict=True):
            qkv = layer.qkv(x).view(heads)
            stored[:, rows, :, places] = qkv[:, 1:]
            mixed = F.scaled_dot_product_attention(qkv[:, 0, :, None], keys, values, attn_mask=mask)
            x = layer.self_norm(x + layer.self_out(mixed.reshape(count, self.width)))
            query = layer.query(x).view(heads)  # [B, 1, H, D / H]
            mixed = F.scaled_dot_product_attention(query.transpose(1, 2), *prompt, attn_mask=prompt_mask)
            x = layer.cross_norm(x + layer.cross_out(mixed.reshape(count, self.width)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))
        return self._head(x)


class CacheView(NamedTuple):
    """The first rows of a cache, as far as attention has to look."""

    causal: Tensor  # [T, window]: what position t may see
    prompt_mask: Tensor  # [B, 1, 1, N]
    caches: list[tuple[Tensor, Tensor, Tensor]]  # for each layer the whole cache, keys and values [B, H, window, D / H]
    prompts: list[tuple[Tensor, Tensor]]  # for each layer keys and values [B, H, N, D / H]


class KVCache:
    """Keys, values, control and masks of the sequences being decoded, of up to `length` symbols; one row each."""

    def __init__(self, decoder: Decoder, rows: int, length: int) -> None:
        length = -(-length // WINDOW) * WINDOW
        heads, width, like = decoder.heads, decoder.width // decoder.heads, decoder.positions
        self.caches = [like.new_zeros(2, rows, heads, length, width) for _ in decoder.layers]
        self.prompts = [like.new_zeros(2, rows, heads, WINDOW, width) for _ in decoder.layers]
        self.control = like.new_zeros(rows, length, decoder.width)
        self.causal = like.new_full((length, length), float("-inf")).triu(1)
        self.prompt_mask = like.new_zeros(rows, WINDOW)
        self._view: tuple[int, int, CacheView] | None = None

    def view(self, count: int, window: int) -> CacheView:
        """The first `count` rows and `window` positions; the same view serves until one of the two changes."""
        if self._view is None or self._view[:2] != (count, window):
            view = CacheView(
                causal=self.causal[:, :window],
                prompt_mask=self.prompt_mask[:count, None, None],
                caches=[(cache, cache[0, :count, :, :window], cache[1, :count, :, :window]) for cache in self.caches],
                prompts=[(cache[0, :count], cache[1, :count]) for cache in self.prompts],
            )
            self._view = (count, window, view)
        return self._view[2]

    def add_row(self, row: int, control: Tensor, prompt: list[Tensor]) -> None:
        """Give a row to a new sequence: its control [T, D], and the keys and values of its prompt."""
        length = prompt[0].shape[2]
        self._widen(length)
        for cache, layer in zip(self.prompts, prompt, strict=True):
            cache[:, row, :, :length] = layer
        self.prompt_mask[row] = float("-inf")
        self.prompt_mask[row, :length] = 0.0
        self.control[row, : len(control)] = control

    def move_row(self, source: int, target: int) -> None:
        """Move a sequence to the row of a finished one."""
        for cache in (*self.caches, *self.prompts):
            cache[:, target] = cache[:, source]
        for each in (self.control, self.prompt_mask):
            each[target] = each[source]

    def _widen(self, length: int) -> None:
        """Make room for a prompt longer than all before it."""
        more = -(-length // WINDOW) * WINDOW - self.prompt_mask.shape[1]
        if more > 0:
            self._view = None
            self.prompts = [F.pad(cache, (0, 0, 0, more)) for cache in self.prompts]
            self.prompt_mask = F.pad(self.prompt_mask, (0, more), value=float("-inf"))


@dataclass(frozen=True, slots=True)
class Bart:
    """Prompt in, symbols out: subwords of a story, or codes of a plan."""

    encoder: Encoder
    decoder: Decoder
    start: int
    end: int

    def prompt(self, ids: Tensor) -> list[Tensor]:
        """What the decoder needs of a prompt [N], read alone."""
        with kernels_for(len(ids) * self.encoder.size):
            return self.decoder.prompt(self.encoder(ids))
