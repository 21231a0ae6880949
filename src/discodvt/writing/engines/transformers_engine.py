"""The engine for every other causal model, and for GPUs: the Hugging Face model itself, on a static cache of rows.

`transformers_bart` is the same for BART.

Rows begin at position 0 and have each their own length, so they are given their positions and a mask of four
dimensions, and keys and values are written to the places of each row. On a GPU the weights are bfloat16.
"""

from collections.abc import Sequence
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from torch.nn import functional as F
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, BartForConditionalGeneration, cache_utils

from discodvt.checkpoints import Weights
from discodvt.errors import BadRequest
from discodvt.model.backbones import Backbone
from discodvt.writing.engines.engine import Cache, Engine, Vocabulary, whole_windows

_MASKS = {"full_attention", "sliding_attention"}


def load_model(config: dict[str, Any], weights: Weights, device: torch.device) -> Any:
    """The Hugging Face model of a configuration, causal or BART, with these weights; bfloat16 on a GPU that has it."""
    settings, directory = dict(config), weights.directory
    if "decoder_layers" in settings:  # checkpoints made when BART was the only backbone do not name it
        settings["model_type"] = "bart"
    dtype = torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    try:
        shape = AutoConfig.for_model(settings.pop("model_type"), **settings)
        bart = shape.model_type == "bart"
        kind: Any = BartForConditionalGeneration if bart else MODEL_FOR_CAUSAL_LM_MAPPING[type(shape)]
        state = {name: weights[name] for name in weights}
        model, found = kind.from_pretrained(None, config=shape, state_dict=state, dtype=dtype, output_loading_info=True)
    except (ValueError, KeyError, TypeError, RuntimeError, StrictDataclassError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadRequest(f"{directory}: no causal language model can be opened ({reason}); give one") from None
    if found["missing_keys"]:
        raise BadRequest(f"{directory}: it lacks the weights {min(found['missing_keys'])}; give a whole checkpoint")
    return model.to(device).eval()


class TransformersEngine(Engine):
    """Prompt in, symbols out."""

    name = "transformers"

    def __init__(self, backbone: Backbone, generator: Any, vocabulary: Vocabulary, source: str) -> None:
        """`generator` is the Hugging Face model, `source` what to call it in errors."""
        super().__init__(vocabulary)
        self.backbone, self.generator, config = backbone, generator, backbone.config
        self.device: torch.device = generator.device
        self.bias = vocabulary.bias(generator.get_output_embeddings().weight[vocabulary.first :])
        window = getattr(config, "sliding_window", None)
        self.sliding = window if getattr(config, "use_sliding_window", True) else None
        whole = "sliding_attention" if self.sliding else "full_attention"
        self.kinds = set(getattr(config, "layer_types", None) or [whole])
        if self.kinds - _MASKS:
            what = ", ".join(sorted(self.kinds - _MASKS))
            raise BadRequest(f"`engine` transformers cannot run {source}: {what}; leave it out", "engine")
        self._check(source)

    def new_cache(self, rows: int, length: int) -> "RowsCache":
        return RowsCache(self, rows, length)

    def room(self, prompt: int) -> int:
        return int(self.backbone.config.max_position_embeddings) - prompt

    @torch.inference_mode()
    def _check(self, source: str) -> None:
        """Refuse a model that keeps something else than keys and values, or does not heed positions and masks."""
        start, end, cache = self.start, self.end, self.new_cache(2, 8)
        first = self.vocabulary.first
        words = torch.tensor([[end, start + first, start + first, end + first]], device=self.device)
        expected = self.generator(words).logits[0, -1, first:]
        expected = expected if self.bias is None else expected + self.bias
        cache.add_row(0, [end], None, [start, end], 4)
        cache.add_row(1, [end, start + first], None, [end], 4)
        found = cache.step([end, end], [2, 1])
        finite = expected[expected.isfinite()].float()
        if not torch.allclose(found.float(), expected.float(), rtol=0.05, atol=0.05 * float(finite.abs().max())):
            raise BadRequest(f"`engine` transformers cannot run {source}: its cache is of another kind", "engine")


class RowsCache(Cache):
    """Keys and values of prompts and stories, and the latent of each story position."""

    def __init__(self, engine: TransformersEngine, rows: int, length: int) -> None:
        self._engine, self._rows, self._length = engine, rows, whole_windows(length)
        self._store = KeptRows()
        self._latent: Tensor | None = None
        self._prompt_lengths: list[int] = []

    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        self._ensure(row + 1, len(prompt) + most)
        self._prompt_lengths[row : row + 1] = [len(prompt)]
        if latent is not None:
            if self._latent is None:
                self._latent = latent.new_zeros(self._rows, self._length, latent.shape[1])
            self._latent[row, :most] = latent[:most]
        words, first = list(prompt), self._engine.vocabulary.first
        if told:
            words += [symbol + first for symbol in (self._engine.start, *told[:-1])]
        if words:
            self._run([words], slice(row, row + 1), [0])

    def move_row(self, source: int, target: int) -> None:
        self._prompt_lengths[target] = self._prompt_lengths[source]
        for tensor in (*self._store.tensors(), *([] if self._latent is None else [self._latent])):
            tensor[target] = tensor[source]

    def step(self, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        engine, first = self._engine, self._engine.vocabulary.first
        places = [length + position for length, position in zip(self._prompt_lengths, positions, strict=False)]
        states = self._run([[symbol + first] for symbol in last], slice(0, len(last)), places)
        logits = engine.backbone.logits(engine.generator, states)[:, 0, first:]
        return logits if engine.bias is None else logits + engine.bias

    def _run(self, words: list[list[int]], rows: slice, first: list[int]) -> Tensor:
        """Words [B, S] of these rows, from their places `first` on, to states [B, S, D]."""
        engine = self._engine
        ids, starts = torch.tensor(words, device=engine.device), torch.tensor(first, device=engine.device)
        places = starts[:, None] + torch.arange(ids.shape[1], device=engine.device)  # [B, S]
        window = whole_windows(max(first) + ids.shape[1])
        lengths = torch.tensor(self._prompt_lengths[rows], device=engine.device)
        latent = None if self._latent is None else self._latent[rows]
        dtype = engine.generator.dtype
        if self._store.shape is None:
            self._store.shape = self._rows, self._length
        self._store.rows, self._store.places, self._store.window = rows, places, window
        return self._forward(ids, places - lengths[:, None], places, latent, self._masks(places, window, dtype))

    def _forward(self, ids: Tensor, told: Tensor, places: Tensor, latent: Tensor | None, masks: Any) -> Tensor:
        """Ids, story positions and positions [B, S] of the rows of the store, what they see, to states [B, S, D]."""
        states: Tensor = self._engine.backbone.run(
            self._engine.generator,
            ids,
            told,
            latent,
            attention_mask=masks,
            position_ids=places,
            past_key_values=self._store,
            use_cache=True,
        ).last_hidden_state
        return states

    def _masks(self, places: Tensor, window: int, dtype: torch.dtype) -> Any:
        """What each place sees [B, 1, S, window], for each kind of layer if there are several."""
        distance = places[:, None, :, None] - torch.arange(window, device=places.device)
        hidden = {"full_attention": distance < 0}
        if self._engine.sliding is not None:
            hidden["sliding_attention"] = (distance < 0) | (distance >= self._engine.sliding)
        masks = {
            kind: torch.zeros(hidden[kind].shape, dtype=dtype, device=places.device).masked_fill_(
                hidden[kind], float("-inf")
            )
            for kind in self._engine.kinds
        }
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _ensure(self, rows: int, length: int) -> None:
        more_rows, more_length = max(0, rows - self._rows), max(0, whole_windows(length) - self._length)
        if not more_rows and not more_length:
            return
        self._rows += max(more_rows, self._rows) if more_rows else 0
        self._length += more_length
        self._store.grow(self._rows, self._length)
        if self._latent is not None:
            added = self._rows - len(self._latent), self._length - self._latent.shape[1]
            self._latent = F.pad(self._latent, (0, 0, 0, added[1], 0, added[0]))


class KeptRows(cache_utils.Cache):
    """What transformers sees: keys and values go to `places` of `rows`, and come back as far as the window."""

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.shape: tuple[int, int] | None = None
        self.rows, self.window = slice(0, 0), 0
        self.places = torch.zeros(0)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if layer_idx not in self._kept:
            assert self.shape is not None
            rows, length = self.shape
            self._kept[layer_idx] = tuple(  # type: ignore[assignment]
                states.new_zeros(rows, states.shape[1], length, states.shape[3])
                for states in (key_states, value_states)
            )
        number = torch.arange(self.rows.start, self.rows.stop, device=key_states.device)[:, None]
        for kept, states in zip(self._kept[layer_idx], (key_states, value_states), strict=True):
            kept[number, :, self.places] = states.transpose(1, 2)
        keys, values = (kept[self.rows, :, : self.window] for kept in self._kept[layer_idx])
        return keys, values

    def tensors(self) -> list[Tensor]:
        return [tensor for pair in self._kept.values() for tensor in pair]

    def of_rows(self, rows: slice) -> cache_utils.Cache:
        """Keys and values of these rows as transformers keeps those of prompts."""
        layers: list[Any] = []
        for number in range(len(self._kept)):
            layer: Any = cache_utils.DynamicLayer()  # type: ignore[no-untyped-call]
            layer.keys, layer.values = (kept[rows] for kept in self._kept[number])
            layers.append(layer)
        return cache_utils.Cache(layers=layers)

    def grow(self, rows: int, length: int) -> None:
        self.shape = rows, length
        for layer, pair in self._kept.items():
            more = rows - pair[0].shape[0], length - pair[0].shape[2]
            keys, values = (F.pad(tensor, (0, 0, 0, more[1], 0, 0, 0, more[0])) for tensor in pair)
            self._kept[layer] = keys, values

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Nothing asks where positions and masks are given."""
        return 0
