"""The engine `transformers` for BART: the Hugging Face model itself, on static caches of stories and prompts.

Rows have each their own length, but BART's decoder counts positions for all of them alike: its table of positions is
taken out, and what a row's places have in it is added to the embeddings. Prompts are encoded alone, and their keys and
values kept.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import EncoderDecoderCache

from discodvt.errors import BadRequest
from discodvt.model.backbones import Backbone
from discodvt.writing.engines.engine import WINDOW, Vocabulary, whole_windows
from discodvt.writing.engines.transformers_engine import KeptRows, RowsCache, TransformersEngine


class BartByTransformers(TransformersEngine):
    """Prompt in, subwords out."""

    def __init__(self, backbone: Backbone, generator: Any, vocabulary: Vocabulary, source: str) -> None:
        decoder = generator.model.decoder
        told, prompt = [vocabulary.start, vocabulary.end, vocabulary.end], [vocabulary.start, vocabulary.end]
        with torch.inference_mode():
            self._expected: Tensor = generator(
                input_ids=torch.tensor([prompt], device=generator.device),
                decoder_input_ids=torch.tensor([told], device=generator.device),
            ).logits[0, -1]
        self._sample = prompt, told
        table = decoder.embed_positions
        self.positions = table.weight.detach()[table.offset :].clone()  # [P, D]
        torch.nn.init.zeros_(table.weight)
        super().__init__(backbone, generator, vocabulary, source)

    def new_cache(self, rows: int, length: int) -> "BartRowsCache":
        return BartRowsCache(self, rows, length)

    def room(self, prompt: int) -> int:
        return len(self.positions)

    @torch.inference_mode()
    def _check(self, source: str) -> None:
        """Refuse where two rows of different lengths do not give what the model gave before its table was taken out."""
        (prompt, told), cache = self._sample, self.new_cache(2, 8)
        cache.add_row(0, prompt, None, told[1:], 4)
        cache.add_row(1, [*prompt, *prompt], None, [], 4)
        found, _ = cache.step([told[-1], self.start], [2, 0])
        scale = float(self._expected.float().abs().max())
        if not torch.allclose(found.float(), self._expected.float(), rtol=0.05, atol=0.05 * scale):
            raise BadRequest(f"`engine` transformers cannot run {source}: its cache is of another kind", "engine")


class BartRowsCache(RowsCache):
    """Keys and values of stories and of prompts, and the latent of each story position."""

    _engine: BartByTransformers

    def __init__(self, engine: BartByTransformers, rows: int, length: int) -> None:
        super().__init__(engine, rows, length)
        self._prompts, self._hidden = KeptRows(), torch.zeros(rows, WINDOW, device=engine.device)

    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        self._ensure(row + 1, most)
        self._read_prompt(row, torch.tensor([prompt], device=self._engine.device))
        super().add_row(row, [], latent, told, most)

    def move_row(self, source: int, target: int) -> None:
        super().move_row(source, target)
        for tensor in (*self._prompts.tensors(), self._hidden):
            tensor[target] = tensor[source]

    def _read_prompt(self, row: int, ids: Tensor) -> None:
        """Keep what the decoder's layers make of an encoded prompt [1, N], and hide what is behind it."""
        model, length = self._engine.generator.model, ids.shape[1]
        more = self._rows - len(self._hidden), max(0, whole_windows(length) - self._hidden.shape[1])
        if any(more):
            self._hidden = F.pad(self._hidden, (0, more[1], 0, more[0]), value=float("-inf"))
            self._prompts.grow(*self._hidden.shape)
        self._hidden[row] = float("-inf")
        self._hidden[row, :length] = 0.0
        states = model.encoder(input_ids=ids).last_hidden_state
        kept = self._prompts
        kept.shape, kept.rows, kept.window = (self._rows, self._hidden.shape[1]), slice(row, row + 1), length
        kept.places = torch.arange(length, device=ids.device)[None]
        for number, layer in enumerate(model.decoder.layers):
            heads = (1, length, layer.encoder_attn.num_heads, -1)
            project = layer.encoder_attn.k_proj, layer.encoder_attn.v_proj
            keys, values = (each(states).view(heads).transpose(1, 2) for each in project)
            kept.update(keys, values, number)

    def _forward(self, ids: Tensor, told: Tensor, places: Tensor, latent: Tensor | None, masks: Any) -> Tensor:
        engine, rows = self._engine, self._store.rows
        decoder = engine.generator.model.decoder
        embedded = engine.backbone.embed_with(engine.generator, ids, told, latent)
        embedded = embedded + engine.positions[places]
        both = EncoderDecoderCache(self._store, self._prompts.of_rows(rows))
        both.is_updated = dict.fromkeys(range(len(decoder.layers)), True)  # prompts have been read
        hidden = self._hidden[rows, None, None].to(embedded.dtype).expand(-1, 1, ids.shape[1], -1)
        states: Tensor = decoder(
            inputs_embeds=embedded,
            attention_mask=masks,
            encoder_hidden_states=embedded.new_zeros(len(ids), hidden.shape[3], 1),  # not looked at, but for its shape
            encoder_attention_mask=hidden,
            past_key_values=both,
            use_cache=True,
        ).last_hidden_state
        return states
