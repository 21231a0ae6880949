"""The engine for the Llama family (Llama, Mistral, Qwen 2 and 3, SmolLM): one sequence, `BOS prompt SEP story`.

RMSNorm, rotary positions, grouped-query attention and SwiGLU in about ten calls a layer: one matrix for queries, keys
and values and one for gate and up; residuals are added by the matrix products. The two numbers a
rotation turns are stored side by side, so that it is one complex product.
"""

from collections.abc import Callable, Mapping, Sequence
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
from discodvt.writing.engines.engine import Cache, Engine, KVStore, Vocabulary
from discodvt.writing.engines.layers import Linear, fused, kernels_for, linear
from discodvt.writing.engines.rotary import KINDS, rope_settings, rotations

FAMILY = ("llama", "mistral", "qwen2", "qwen3", "smollm3")


def unfit(config: Mapping[str, Any]) -> str:
    """Why this engine cannot run a model of this `config.json`; empty if it can."""
    kind, rope = config.get("model_type"), rope_settings(config)
    if kind not in FAMILY:
        return f"it is a {kind}, none of {', '.join(FAMILY)}"
    if rope["rope_type"] not in KINDS:
        return f"rope_type {rope['rope_type']!r} is none of {', '.join(KINDS)}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "only a part of its heads is rotated"
    if config.get("hidden_act", "silu") != "silu":
        return f"its activation is {config['hidden_act']}, not silu"
    window, types = config.get("sliding_window"), config.get("layer_types") or ()
    slides = "sliding_attention" in types or (not types and config.get("use_sliding_window", kind == "mistral"))
    if window and slides and window < config.get("max_position_embeddings", window):
        return f"it sees only the last {window:,} positions"
    return ""


def _check_sizes(layers: Weights, config: Mapping[str, Any], heads: int, kv_heads: int, head_width: int) -> None:
    """Refuse numbers the weights do not bear out: other heads cannot be run, fewer layers would write nonsense."""
    stored = {
        "num_hidden_layers": (config["num_hidden_layers"], len({name.partition(".")[0] for name in layers})),
        "num_attention_heads": (heads, layers.shape("0.self_attn.q_proj.weight")[0] // head_width),
        "num_key_value_heads": (kv_heads, layers.shape("0.self_attn.k_proj.weight")[0] // head_width),
    }
    for key, (said, found) in stored.items():
        if said != found:
            raise BadRequest(f"{layers.directory}: {key} of config.json is {said}; expected {found}, as in the weights")


@dataclass(slots=True, kw_only=True)
class _Layer:
    qkv: Linear
    head_norms: Tensor | None  # [H + kv heads, D / H], Qwen 3
    rotates: bool  # all but some layers of SmolLM 3
    out: Linear
    gate_up: Linear
    down: Linear
    attention_norm: Tensor
    mlp_norm: Tensor


class Llama(Engine):
    """Prompt in, symbols out."""

    name = "llama"

    def __init__(self, weights: Weights, config: Mapping[str, Any], vocabulary: Vocabulary, *, int8: bool) -> None:
        """Weights of a `LlamaForCausalLM` and its like."""
        super().__init__(vocabulary)
        self.heads: int = config["num_attention_heads"]
        self.kv_heads: int = config.get("num_key_value_heads") or self.heads
        self.head_width: int = config.get("head_dim") or config["hidden_size"] // self.heads
        self.positions: int = config["max_position_embeddings"]
        prefix = "model." if "model.embed_tokens.weight" in weights else ""
        self.embedding = weights[f"{prefix}embed_tokens.weight"]
        self._symbols = self.embedding[vocabulary.first :]
        self.device = self.embedding.device
        self._eps = torch.tensor(config.get("rms_norm_eps", 1e-6), device=self.device)
        self._norm = weights[f"{prefix}norm.weight"]
        head = weights.first("lm_head.weight", f"{prefix}embed_tokens.weight")[vocabulary.first :]
        self._head = linear(head, vocabulary.bias(head), int8=int8)
        self._rotations = rotations(config, self.head_width, self.positions).to(self.device)
        _check_sizes(weights.under(f"{prefix}layers."), config, self.heads, self.kv_heads, self.head_width)
        rotates = config.get("no_rope_layers") or [1] * config["num_hidden_layers"]
        self._layers = [
            self._layer(weights.under(f"{prefix}layers.{number}."), rotates=bool(turned), int8=int8)
            for number, turned in enumerate(rotates)
        ]
        self.size = self._head.size + sum(
            layer.qkv.size + layer.out.size + layer.gate_up.size + layer.down.size for layer in self._layers
        )
        self._shape = (-1, self.heads + 2 * self.kv_heads, self.head_width)
        self._heads_of = (self.heads, self.kv_heads, self.kv_heads)  # queries, keys, values
        self._widths = (self.head_width,)
        self.step = BusyStep(self, self._plain_step, self.size, None if int8 else self._compiled_step)

    def _layer(self, weights: Weights, *, rotates: bool, int8: bool) -> _Layer:
        dense: Callable[..., Linear] = partial(fused, int8=int8)
        norms = None
        if "self_attn.q_norm.weight" in weights:
            norms = torch.cat([
                _side_by_side(weights["self_attn.q_norm.weight"], self.head_width).expand(self.heads, -1),
                _side_by_side(weights["self_attn.k_norm.weight"], self.head_width).expand(self.kv_heads, -1),
            ])  # fmt: skip
        return _Layer(
            qkv=self._qkv(weights.under("self_attn."), int8=int8),
            head_norms=norms,
            rotates=rotates,
            out=dense(weights, "self_attn.o_proj"),
            gate_up=dense(weights, "mlp.gate_proj", "mlp.up_proj"),
            down=dense(weights, "mlp.down_proj"),
            attention_norm=weights["input_layernorm.weight"],
            mlp_norm=weights["post_attention_layernorm.weight"],
        )

    def _qkv(self, weights: Weights, *, int8: bool) -> Linear:
        def joined(kind: str) -> Tensor:
            turned = (_side_by_side(weights[f"{name}.{kind}"], self.head_width) for name in ("q_proj", "k_proj"))
            return torch.cat([*turned, weights[f"v_proj.{kind}"]])

        return linear(joined("weight"), joined("bias") if "q_proj.bias" in weights else None, int8=int8)

    def new_cache(self, rows: int, length: int) -> "LlamaCache":
        return LlamaCache(self, rows, length)

    def room(self, prompt: int) -> int:
        return self.positions - prompt

    def compile(self) -> bool:
        return self.step.compile()

    def _qkv_of(self, layer: _Layer, x: Tensor, turns: Tensor) -> Tensor:
        """States [B, D] to queries, keys and values [B, H + 2 kv heads, D / H], the first two rotated."""
        h = self._rms_norm(x, layer.attention_norm)
        qkv = layer.qkv(h).view(self._shape)
        turned = qkv[:, : self.heads + self.kv_heads]
        if layer.head_norms is not None:
            turned.copy_(F.rms_norm(turned, self._widths, None, float(self._eps)).mul_(layer.head_norms))
        if layer.rotates:
            torch.view_as_complex(turned.view(*turned.shape[:2], -1, 2)).mul_(turns)
        return qkv

    def _rms_norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """What `rms_norm` computes, in half of its calls."""
        length = torch.linalg.vector_norm(x, 2, 1, True)
        scale = torch.addcmul(self._eps, length, length, value=1 / x.shape[1]).rsqrt_()
        return torch.mul(x, scale).mul_(weight)

    def _mlp(self, layer: _Layer, x: Tensor) -> Tensor:
        gate, up = layer.gate_up(self._rms_norm(x, layer.mlp_norm)).chunk(2, dim=1)
        return layer.down.added_to(x, F.silu(gate).mul_(up))

    def _plain_step(self, cache: "LlamaCache", last: Sequence[int], positions: Sequence[int]) -> Tensor:
        """The last symbols of the first B rows, and how many each has, to logits [B, V] of the next."""
        count = len(last)
        absolute = [first + position for first, position in zip(cache.prompt_lengths, positions, strict=False)]
        store = cache.store
        store.ensure(count, max(absolute) + 1)
        rows: Any = 0  # a single row is addressed by numbers, which is faster than by tensors of one number
        places: Any = absolute[0]
        told: Any = positions[0]
        if count > 1:
            indices = [list(range(count)), absolute, list(positions), list(last)]
            rows, places, told, symbols = torch.tensor(indices, device=self.device)
        else:
            symbols = torch.tensor(last, device=self.device)
        mask, inside = store.mask(places), store.split(places)
        turns = self._rotations[places].view(count, 1, -1)
        x = F.embedding(symbols, self._symbols)
        if cache.latent is not None:
            x += cache.latent[rows, told]
        for number, layer in enumerate(self._layers):
            query, keys, values = self._qkv_of(layer, x, turns).split_with_sizes(self._heads_of, 1)
            store.write(number, rows, inside, keys, values)
            mixed = store.attend(number, query, mask)
            x = self._mlp(layer, layer.out.added_to(x, mixed))
        return self._head(self._rms_norm(x, self._norm))

    def _compiled_step(self) -> Step:
        """The same, all layers in one call."""
        from discodvt.writing.engines import kernels

        layers = self._layers
        kinds = ("qkv", "out", "gate_up", "down")
        matrices = packed(*([getattr(layer, kind) for layer in layers] for kind in kinds), [self._head])
        norms = [layer.head_norms for layer in layers if layer.head_norms is not None]
        turns = torch.view_as_real(self._rotations).flatten(1)
        model = kernels.LlamaWeights(
            **dict(zip((*kinds, "head"), matrices, strict=True)),
            attention_norms=np.stack([layer.attention_norm for layer in layers]),
            mlp_norms=np.stack([layer.mlp_norm for layer in layers]),
            final_norm=self._norm.numpy(),
            head_norms=np.stack(norms) if norms else np.zeros((0, 1, 1), dtype=np.float32),
            rotates=np.array([layer.rotates for layer in layers]),
            rotations=turns.numpy(),
            eps=np.float32(self._eps),
        )
        symbols = self._symbols.numpy()

        def step(cache: "LlamaCache", last: Sequence[int], positions: Sequence[int]) -> Tensor:
            places = np.add(cache.prompt_lengths[: len(last)], positions)
            cache.store.ensure(len(last), int(places.max()) + 1)
            keys, values = (each.numpy() for each in cache.store.states)

            def run(first: int, count: int) -> Floats:
                part = slice(first, first + count)
                x = np.zeros((kernels.padded(count), symbols.shape[1]), dtype=np.float32)
                x[:count] = symbols[last[part]]
                if cache.latent is not None:
                    x[:count] += cache.latent.numpy()[np.arange(first, first + count), positions[part]]
                logits: Floats = kernels.llama_step(x, first, places[part], model, keys, values)
                return logits[:count, : len(symbols)]

            return by_rows(run, len(last), len(last) * self.size)

        return step

    def read(self, cache: "LlamaCache", row: int, prompt: Sequence[int], told: Sequence[int]) -> None:
        """Keys and values of the prompt and of the first symbols of a row, all positions at once."""
        count = len(prompt) + len(told)
        words = [*prompt, *(symbol + self.vocabulary.first for symbol in told)]
        x = F.embedding(torch.tensor(words, device=self.device), self.embedding)
        if cache.latent is not None and told:
            x[len(prompt) :] += cache.latent[row, : len(told)]
        turns = self._rotations[:count].view(count, 1, -1)
        for number, layer in enumerate(self._layers):
            qkv = self._qkv_of(layer, x, turns)
            query, keys, values = qkv.transpose(0, 1).split_with_sizes(self._heads_of)  # each [_, S, D / H]
            cache.store.fill(number, row, keys, values)
            if number == len(self._layers) - 1:  # what it makes of them is not asked for
                return
            keys, values = (each[:, None].expand(-1, self.heads // self.kv_heads, -1, -1) for each in (keys, values))
            query = query.view(*keys.shape)
            mixed = F.scaled_dot_product_attention(query, keys, values, is_causal=True)  # [kv heads, group, S, D / H]
            x = self._mlp(layer, layer.out.added_to(x, mixed.permute(2, 0, 1, 3).reshape(count, -1)))


class LlamaCache(Cache):
    """Keys and values of prompts and stories, and the latent of each story position."""

    def __init__(self, llama: Llama, rows: int, length: int) -> None:
        self._llama = llama
        self.store = KVStore(
            len(llama._layers),
            llama.kv_heads,
            llama.head_width,
            queries=llama.heads,
            rows=rows,
            length=length,
            like=llama.embedding,
        )
        self.prompt_lengths: list[int] = []
        self.latent: Tensor | None = None  # [rows, length, D]; none while no row has one

    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        llama = self._llama
        self.store.ensure(row + 1, len(prompt) + len(told))
        self.prompt_lengths[row : row + 1] = [len(prompt)]
        if latent is not None:
            self._place_latent(row, latent[:most])
        begun = [llama.start, *told[:-1]] if told else []
        with kernels_for((len(prompt) + len(begun)) * llama.size):
            llama.read(self, row, prompt, begun)

    def move_row(self, source: int, target: int) -> None:
        self.store.move_row(source, target)
        self.prompt_lengths[target] = self.prompt_lengths[source]
        if self.latent is not None:
            self.latent[target] = self.latent[source]

    def step(self, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        return self._llama.step(self, last, positions)

    def _place_latent(self, row: int, latent: Tensor) -> None:
        """Keep a row's latent."""
        length, width = latent.shape
        if self.latent is None:
            self.latent = latent.new_zeros(self.store.rows, length, width)
        more_rows, more_length = self.store.rows - len(self.latent), max(0, length - self.latent.shape[1])
        if more_rows or more_length:
            self.latent = F.pad(self.latent, (0, 0, 0, more_length, 0, more_rows))
        self.latent[row, :length] = latent


def _side_by_side(weight: Tensor, width: int) -> Tensor:
    """Rows i and i + width / 2 of each head, which are rotated together, next to each other."""
    halves = weight.view(-1, 2, width // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)
