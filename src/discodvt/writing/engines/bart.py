"""The engine for BART: an encoder that reads a prompt, a decoder that goes one position at a time.

The weights are Hugging Face's, and so are the numbers but for their last bits; the calls are a tenth. Queries, keys
and values come from one matrix; keys and values go to places reserved for them; those of the prompt are computed once.
The same engine writes stories and, as the prior, plans.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.checkpoints import Weights
from discodvt.errors import BadRequest
from discodvt.writing.engines.compiled import BusyStep, Floats, Step, by_rows, packed
from discodvt.writing.engines.engine import WINDOW, Cache, Engine, KVStore, Vocabulary
from discodvt.writing.engines.layers import Linear, Norm, activation, fused, kernels_for, linear, norm

_OFFSET = 2  # BART's position 0 is row 2 of its table
_COMPILED: dict[Any, int] = {F.gelu: 0, F.relu: 1, F.silu: 2}  # activations, by their numbers in `kernels`


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
        self.compiles = not int8 and shape.activation in _COMPILED
        self._head, self._symbols = linear(head, bias, int8=int8), len(head)
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

    def prompt(self, states: Tensor) -> list[Tensor]:
        """Keys and values [2, H, N, D / H] of an encoded prompt [N, D], for each layer."""
        shape = (len(states), 2, self.heads, self.width // self.heads)
        return [layer.prompt_kv(states).view(shape).permute(1, 2, 0, 3) for layer in self.layers]

    def step(self, cache: "BartCache", last: Sequence[int], positions: Sequence[int]) -> Tensor:
        """The last symbols of the first B rows, and how many each has, to logits [B, V] of the next."""
        count, story, prompts = len(last), cache.story, cache.prompts
        story.ensure(count, max(positions) + 1)
        rows: Any = 0  # a single row is addressed by numbers, which is faster than by tensors of one number
        places: Any = positions[0]
        if count > 1:
            rows, places = torch.tensor([list(range(count)), list(positions)], device=cache.control.device)
        mask, prompt_mask = story.mask(places), cache.prompt_mask[:count, None]
        inside = story.split(places)
        symbols = torch.tensor(last, device=cache.control.device)
        heads = (count, -1, self.heads, self.width // self.heads)
        x = self._norm(F.embedding(symbols, self._embedding) + cache.control[rows, places])
        for number, layer in enumerate(self.layers):
            query, keys, values = layer.qkv(x).view(heads).unbind(1)
            story.write(number, rows, inside, keys, values)
            x = layer.self_norm(x + layer.self_out(story.attend(number, query, mask)))
            query = layer.query(x).view(heads)[:, 0]
            x = layer.cross_norm(x + layer.cross_out(prompts.attend(number, query, prompt_mask)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))
        return self._head(x)

    def compiled_step(self) -> Step:
        """The same as `step`, all layers in one call."""
        from discodvt.writing.engines import kernels

        kinds = ("qkv", "self_out", "query", "cross_out", "up", "down")
        norms = {
            name: np.stack([_norm_parts(getattr(layer, name)) for layer in self.layers])
            for name in ("self_norm", "cross_norm", "final_norm")
        }
        matrices = packed(*([getattr(layer, kind) for layer in self.layers] for kind in kinds), [self._head])
        model = kernels.BartWeights(
            **dict(zip((*kinds, "head"), matrices, strict=True)),
            first_norm=_norm_parts(self._norm),
            self_norms=norms["self_norm"],
            cross_norms=norms["cross_norm"],
            final_norms=norms["final_norm"],
            activation=_COMPILED[self._activation],
        )
        embedding, symbols = self._embedding.numpy(), self._symbols

        def step(cache: "BartCache", last: Sequence[int], positions: Sequence[int]) -> Tensor:
            cache.story.ensure(len(last), max(positions) + 1)
            states = [each.numpy() for each in (*cache.story.states, *cache.prompts.states)]
            places, prompts = np.array(positions), np.array(cache.prompt_lengths)

            def run(first: int, count: int) -> Floats:
                part = slice(first, first + count)
                x = np.zeros((kernels.padded(count), self.width), dtype=np.float32)
                added = cache.control.numpy()[np.arange(first, first + count), places[part]]
                x[:count] = embedding[last[part]] + added
                logits: Floats = kernels.bart_step(x, first, places[part], prompts[part], model, *states)
                return logits[:count, :symbols]

            return by_rows(run, len(last), len(last) * self.size)

        return step

    def read(self, cache: "BartCache", row: int, told: Sequence[int]) -> None:
        """Keys and values of the first symbols of a row, all positions at once."""
        count = len(told)
        heads = (count, -1, self.heads, self.width // self.heads)
        symbols = torch.tensor(told, device=cache.control.device)
        x = self._norm(F.embedding(symbols, self._embedding) + cache.control[row, :count])
        for number, layer in enumerate(self.layers):
            query, keys, values = layer.qkv(x).view(heads).permute(1, 2, 0, 3)  # each [H, S, D / H]
            cache.story.fill(number, row, keys, values)
            mixed = F.scaled_dot_product_attention(query[None], keys[None], values[None], is_causal=True)[0]
            x = layer.self_norm(x + layer.self_out(mixed.transpose(0, 1).reshape(count, self.width)))
            query = layer.query(x).view(heads).permute(1, 2, 0, 3)  # [1, H, S, D / H]
            keys, values = cache.prompts.row(number, row)
            mask = cache.prompt_mask[row, None, None, None]
            mixed = F.scaled_dot_product_attention(query, keys[None], values[None], attn_mask=mask)
            x = layer.cross_norm(x + layer.cross_out(mixed[0].transpose(0, 1).reshape(count, self.width)))
            x = layer.final_norm(x + layer.down(self._activation(layer.up(x))))


class BartCache(Cache):
    """Keys and values of stories and prompts, and what is added at each position: its embedding and the latent."""

    def __init__(self, bart: "Bart", rows: int, length: int) -> None:
        decoder = bart.decoder
        depth, heads, width = len(decoder.layers), decoder.heads, decoder.width // decoder.heads
        store = partial(KVStore, depth, heads, width, queries=heads, rows=rows, like=decoder.positions)
        self._bart, self.story, self.prompts = bart, store(length=length), store(length=WINDOW)
        self.control = decoder.positions.new_zeros(rows, length, decoder.width)
        self.prompt_mask = decoder.positions.new_zeros(rows, self.prompts.length)
        self.prompt_lengths: list[int] = []

    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        decoder = self._bart.decoder
        self._ensure(row + 1, most, told=len(told), prompt=len(prompt))
        with kernels_for(len(prompt) * self._bart.encoder.size):
            states = self._bart.encoder(torch.tensor(prompt, device=self.control.device))
            for number, (keys, values) in enumerate(decoder.prompt(states)):
                self.prompts.fill(number, row, keys, values)
        self.prompt_lengths[row : row + 1] = [len(prompt)]
        self.prompt_mask[row] = float("-inf")
        self.prompt_mask[row, : len(prompt)] = 0.0
        positions = decoder.positions[:most]
        self.control[row, :most] = positions if latent is None else latent[:most] + positions
        if told:
            with kernels_for(len(told) * decoder.size):
                decoder.read(self, row, [self._bart.start, *told[:-1]])

    def move_row(self, source: int, target: int) -> None:
        self.story.move_row(source, target)
        self.prompts.move_row(source, target)
        self.prompt_lengths[target] = self.prompt_lengths[source]
        for each in (self.control, self.prompt_mask):
            each[target] = each[source]

    def step(self, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        return self._bart.step(self, last, positions)

    def _ensure(self, rows: int, most: int, *, told: int, prompt: int) -> None:
        """Make room for more rows, or for a story or prompt longer than all before it."""
        self.story.ensure(rows, told)
        self.prompts.ensure(self.story.rows, prompt)
        added = self.story.rows - len(self.control), max(0, most - self.control.shape[1])
        if any(added):
            self.control = F.pad(self.control, (0, 0, 0, added[1], 0, added[0]))
        added = self.prompts.rows - len(self.prompt_mask), self.prompts.length - self.prompt_mask.shape[1]
        if any(added):
            self.prompt_mask = F.pad(self.prompt_mask, (0, added[1], 0, added[0]), value=float("-inf"))


class Bart(Engine):
    """Prompt in, symbols out: subwords of a story, or codes of a plan."""

    name = "bart"

    def __init__(self, encoder: Encoder, decoder: Decoder, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.encoder, self.decoder = encoder, decoder
        self.device = decoder.positions.device
        build = decoder.compiled_step if decoder.compiles else None
        self.step = BusyStep(self, decoder.step, decoder.size, build)

    def new_cache(self, rows: int, length: int) -> BartCache:
        return BartCache(self, rows, length)

    def room(self, prompt: int) -> int:
        return len(self.decoder.positions)

    def compile(self) -> bool:
        return self.step.compile()


def _norm_parts(norm: Any) -> Floats:
    """Weight and bias [2, D] of a `norm`."""
    return np.stack([norm.keywords["weight"], norm.keywords["bias"]])
