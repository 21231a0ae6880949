"""Continuous batching: a finished sequence leaves the batch at once and the next takes its row.

The same loop writes plans (symbols are codes) and texts (symbols are subwords).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from discodvt.writing.bart import Bart, KVCache
from discodvt.writing.layers import kernels_for
from discodvt.writing.sampling import Floats, Ints, SamplingParams, sample


@dataclass(slots=True, kw_only=True)
class Draft:
    """A sequence in the making: what it is conditioned on, its random stream, its lengths, its symbols so far."""

    control: Tensor  # [most, D]
    prompt: list[Tensor]  # keys and values of the prompt, for each layer
    key: int
    fewest: int
    most: int
    symbols: list[int] = field(default_factory=list)
    ended: bool = False  # by its own end symbol, which is not kept

    @property
    def done(self) -> bool:
        return self.ended or len(self.symbols) >= self.most


D = TypeVar("D", bound=Draft)


def next_symbols(logits: Floats, drafts: Sequence[Draft], params: SamplingParams, *, start: int, end: int) -> Ints:
    """Logits [B, V] (overwritten) to the next symbol of each draft [B]; `params` are resolved."""
    penalty = params.repetition_penalty or 1.0
    for scores, draft in zip(logits, drafts, strict=True):
        if penalty != 1.0:
            used = np.array(list({start, *draft.symbols}))
            known = scores[used]
            scores[used] = np.where(known < 0, known * penalty, known / penalty)
        if len(draft.symbols) < draft.fewest:
            scores[end] = -np.inf
    if params.temperature == 0:
        likeliest: Ints = logits.argmax(axis=1)
        return likeliest
    return sample(
        logits,
        np.array([draft.key for draft in drafts], dtype=np.uint64),
        np.array([len(draft.symbols) for draft in drafts]),
        temperature=1.0 if params.temperature is None else params.temperature,
        top_k=params.top_k,
        top_p=params.top_p,
        min_p=params.min_p,
    )


@torch.inference_mode()
def decode(bart: Bart, drafts: Iterable[D], params: SamplingParams, *, rows: int, length: int) -> Iterator[D]:
    """Continue drafts, up to `rows` at a time and to `length` symbols each; yields every draft at each of its steps."""
    waiting = iter(drafts)
    active = list(islice(waiting, rows))
    cache = KVCache(bart.decoder, len(active), length)
    for row, draft in enumerate(active):
        cache.add_row(row, draft.control, draft.prompt)
    while active:
        last = [draft.symbols[-1] if draft.symbols else bart.start for draft in active]
        positions = [len(draft.symbols) for draft in active]
        with kernels_for(len(active) * bart.decoder.size):
            logits = bart.decoder.step(cache, last, positions).cpu().numpy()
        chosen = next_symbols(logits, active, params, start=bart.start, end=bart.end)
        for draft, symbol in zip(active, chosen.tolist(), strict=True):
            if symbol == bart.end:
                draft.ended = True
            else:
                draft.symbols.append(symbol)
            yield draft
        for row in reversed(range(len(active))):
            if active[row].done:
                _replace(cache, active, row, next(waiting, None))


def _replace(cache: KVCache, active: list[D], row: int, following: D | None) -> None:
    """The next draft takes the row, or the last one moves there: rows in use stay together."""
    if following is not None:
        cache.add_row(row, following.control, following.prompt)
        active[row] = following
        return
    final = active.pop()
    if row < len(active):
        cache.move_row(len(active), row)
        active[row] = final
