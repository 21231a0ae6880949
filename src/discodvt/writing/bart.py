"""A BART for writing: an encoder that reads a prompt, a decoder that goes one position at a time.

The weights are Hugging Face's, and so are the numbers but for their last bits; the calls are a tenth. Queries, keys
and values come from one matrix; keys and values go to places reserved for them (`Desk`); those of the prompt are
computed once. A story's numbers should not depend on its neighbours: prompts are read alone, and attention sees windows
of whole vector registers, closed by a mask. So on a CPU batches of two and more give the same bits; a single row takes
other kernels of the BLAS, which round otherwise in the last bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.errors import BadRequest
from discodvt.writing.kernels import kernels_for
from discodvt.writing.linear import Linear, Norm, activation, fused, linear, norm
from discodvt.writing.weights import Weights

if TYPE_CHECKING:
    from discodvt.writing.desk import Desk

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


@dataclass(slots=True)
class _EncoderLayer:
    qkv: Linear
    out: Linear
    norm: Norm
    up: Linear
    down: Linear
    final_norm: Norm


class Encoder:
    """Reads one prompt at a time."""

    def __init__(self, weights: Weights, embedding: Tensor, shape: Shape, *, int8: bool) -> None:
        dense = partial(fused, int8=int8)
        self._embedding = embedding * shape.embed_scale
        self._positions = weights["embed_positions.weight"][_OFFSET:]
        self._norm = norm(weights, "layernorm_embedding")
        self._heads, self._activation = shape.encoder_heads, shape.activation
        self._layers = [
            _EncoderLayer(
                qkv=dense(layer, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                out=dense(layer, "self_attn.out_proj"),
                norm=norm(layer, "self_attn_layer_norm"),
                up=dense(layer, "fc1"),
                down=dense(layer, "fc2"),
                final_norm=norm(layer, "final_layer_norm"),
            )
            for layer in (weights.under(f"layers.{number}.") for number in range(shape.encoder_layers))
        ]
        self.size = sum(layer.qkv.size + layer.out.size + layer.up.size + layer.down.size for layer in self._layers)

    @torch.inference_mode()
    def __call__(self, ids: Tensor) -> Tensor:
        """Subwords [N] to states [N, D]."""
        x = self._norm(F.embedding(ids, self._embedding) + self._positions[: len(ids)])
        for layer in self._layers:
            query, key, value = layer.qkv(x).view(len(ids), 3, self._heads, -1).permute(1, 2, 0, 3)  # [H, N, D / H]
            mixed = F.scaled_dot_product_attention(query[None], key[None], value[None])[0]
            x = layer.norm(x + layer.out(mixed.transpose(0, 1).reshape(x.shape)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))
        return x


@dataclass(slots=True)
class _DecoderLayer:
    qkv: Linear
    self_out: Linear
    self_norm: Norm
    query: Linear
    prompt_kv: Linear
    cross_out: Linear
    cross_norm: Norm
    up: Linear
    down: Linear
    final_norm: Norm


class Decoder:
    """Continues the stories on a desk by one symbol each; a symbol whose bias is minus infinity is never drawn."""

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
                qkv=dense(layer, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                self_out=dense(layer, "self_attn.out_proj"),
                self_norm=norm(layer, "self_attn_layer_norm"),
                query=dense(layer, "encoder_attn.q_proj"),
                prompt_kv=dense(layer, "encoder_attn.k_proj", "encoder_attn.v_proj"),
                cross_out=dense(layer, "encoder_attn.out_proj"),
                cross_norm=norm(layer, "encoder_attn_layer_norm"),
                up=dense(layer, "fc1"),
                down=dense(layer, "fc2"),
                final_norm=norm(layer, "final_layer_norm"),
            )
            for layer in (weights.under(f"layers.{number}.") for number in range(shape.decoder_layers))
        ]
        self.size = self._head.size + sum(
            part.size
            for layer in self.layers
            for part in (layer.qkv, layer.self_out, layer.query, layer.cross_out, layer.up, layer.down)
        )

    @torch.inference_mode()
    def prompt(self, states: Tensor) -> list[Tensor]:
        """Keys and values [2, H, N, D / H] of an encoded prompt [N, D], for each layer."""
        shape = (len(states), 2, self.heads, self.width // self.heads)
        return [layer.prompt_kv(states).view(shape).permute(1, 2, 0, 3) for layer in self.layers]

    def step(self, desk: "Desk", last: list[int], positions: list[int]) -> Tensor:
        """The last symbols of the first B stories, and how many each has, to logits [B, V] of the next."""
        count, window = len(last), -(-(max(positions) + 1) // WINDOW) * WINDOW
        causal, prompt_mask, caches, prompts = desk.view(count, window)
        rows: Any = 0  # a single story is addressed by numbers, which is faster than by tensors of one number
        places: Any = positions[0]
        if count > 1:
            rows, places = torch.tensor([list(range(count)), positions], device=causal.device)
        mask = causal[places].view(count, 1, 1, window)
        symbols = torch.tensor(last, device=causal.device)
        heads = (count, -1, self.heads, self.width // self.heads)
        x = self._norm(F.embedding(symbols, self._embedding) + desk.control[rows, places])
        for layer, (cache, keys, values), prompt in zip(self.layers, caches, prompts, strict=True):
            qkv = layer.qkv(x).view(heads)
            cache[:, rows, :, places] = qkv[:, 1:]
            mixed = F.scaled_dot_product_attention(qkv[:, 0, :, None], keys, values, attn_mask=mask)
            x = layer.self_norm(x + layer.self_out(mixed.reshape(count, self.width)))
            query = layer.query(x).view(heads)  # [B, 1, H, D / H]
            mixed = F.scaled_dot_product_attention(query.transpose(1, 2), *prompt, attn_mask=prompt_mask)
            x = layer.cross_norm(x + layer.cross_out(mixed.reshape(count, self.width)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))
        return self._head(x)


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
