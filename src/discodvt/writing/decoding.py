"""Many stories at once: a finished one leaves at once and the next takes its row, so no work is done for the dead.

The same loop writes plans (symbols are codes) and texts (symbols are subwords).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from discodvt.writing.bart import Bart
from discodvt.writing.desk import Desk
from discodvt.writing.drawing import Floats, Ints, draw
from discodvt.writing.kernels import kernels_for


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


@dataclass(frozen=True, slots=True)
class Manner:
    """How the next symbol is chosen; temperature 0 takes the likeliest."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def choose(self, logits: Floats, drafts: Sequence[Draft], *, start: int, end: int) -> Ints:
        """Logits [B, V], which are changed, to the next symbol of each draft [B]."""
        for scores, draft in zip(logits, drafts, strict=True):
            if self.repetition_penalty != 1.0:
                used = np.array(list({start, *draft.symbols}))
                known = scores[used]
                scores[used] = np.where(known < 0, known * self.repetition_penalty, known / self.repetition_penalty)
            if len(draft.symbols) < draft.fewest:
                scores[end] = -np.inf
        if self.temperature == 0:
            likeliest: Ints = logits.argmax(axis=1)
            return likeliest
        return draw(
            logits,
            np.array([draft.key for draft in drafts], dtype=np.uint64),
            np.array([len(draft.symbols) for draft in drafts]),
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
        )


@torch.inference_mode()
def decode(bart: Bart, drafts: Iterable[D], manner: Manner, *, rows: int, length: int) -> Iterator[D]:
    """Continue drafts, up to `rows` at a time and to `length` symbols each; yields a draft at every step it makes."""
    waiting = iter(drafts)
    seated = list(islice(waiting, rows))
    desk = Desk(bart.decoder, len(seated), length)
    for row, draft in enumerate(seated):
        desk.seat(row, draft.control, draft.prompt)
    while seated:
        last = [draft.symbols[-1] if draft.symbols else bart.start for draft in seated]
        positions = [len(draft.symbols) for draft in seated]
        with kernels_for(len(seated) * bart.decoder.size):
            logits = bart.decoder.step(desk, last, positions).cpu().numpy()
        chosen = manner.choose(logits, seated, start=bart.start, end=bart.end)
        for draft, symbol in zip(seated, chosen.tolist(), strict=True):
            if symbol == bart.end:
                draft.ended = True
            else:
                draft.symbols.append(symbol)
            yield draft
        for row in reversed(range(len(seated))):
            if seated[row].done:
                _replace(desk, seated, row, next(waiting, None))


def _replace(desk: Desk, seated: list[D], row: int, following: D | None) -> None:
    """The next draft takes the row, or the last one moves there: rows in use stay together."""
    if following is not None:
        desk.seat(row, following.control, following.prompt)
        seated[row] = following
        return
    final = seated.pop()
    if row < len(seated):
        desk.move(len(seated), row)
        seated[row] = final
