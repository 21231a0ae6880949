"""Continuous batching: sequences join and leave the batch between any two steps, each with params of its own.

The same batch writes plans (symbols are codes) and texts (symbols are subwords).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from discodvt.writing.engines.engine import Cache, Engine
from discodvt.writing.prompt_words import PromptWords
from discodvt.writing.sampling import Floats, Ints, SamplingParams, sample

LONGEST_BLOCK = 8  # symbols that are looked for in a loop


class Favour(NamedTuple):
    """Symbols that are made likelier between two positions, more so from one to the next, until one of them has come.

    So they come where they fit, if they fit anywhere: early places are taken only by what is nearly likely itself.
    """

    symbols: tuple[int, ...]
    first: int
    last: int  # exclusive
    bias: float  # added to their logits at the first position, nearly twice that at the last

    def bias_after(self, drawn: Sequence[int]) -> float:
        """What is added after these symbols; 0 where none of them is wanted."""
        done = (len(drawn) - self.first) / (self.last - self.first)
        wanted = 0 <= done < 1 and not set(self.symbols) & set(drawn[self.first :])
        return self.bias * (1 + done) if wanted else 0.0


class DistinctSymbols:
    """The different symbols of a sequence, without those that are spared, as an array that grows with it."""

    def __init__(self, start: int, spared: Iterable[int], most: int) -> None:
        self._seen, self._found = set(spared), np.empty(most + 1, dtype=np.int64)
        self._count = self._read = 0
        self._add(start)

    def of(self, symbols: Sequence[int]) -> Ints:
        """Those of a sequence, which begins as that of the last call."""
        for symbol in symbols[self._read :]:
            self._add(symbol)
        self._read = len(symbols)
        return self._found[: self._count]

    def _add(self, symbol: int) -> None:
        if symbol not in self._seen:
            self._seen.add(symbol)
            self._found[self._count] = symbol
            self._count += 1


@dataclass(slots=True, kw_only=True, eq=False)
class Draft:
    """A sequence in the making: what it is conditioned on, its random stream, its lengths, its symbols so far.

    At the positions of `forced` the given symbol is taken; draws at other positions stay what they are, and the
    sequence does not end before the last of them.
    """

    prompt: Sequence[int]
    key: int
    fewest: int
    most: int
    params: SamplingParams  # resolved
    latent: Tensor | None = None  # [most, D]
    forced: Mapping[int, int] = field(default_factory=dict)
    symbols: list[int] = field(default_factory=list)
    ended: bool = False  # by its own end symbol, which is not kept
    favour: Favour | None = None
    prompt_words: PromptWords | None = None
    unpenalised: frozenset[int] = frozenset()  # symbols that a repetition penalty spares
    penalised: DistinctSymbols | None = None
    most_in_a_row: int | None = None  # times that a block of a few symbols may follow itself
    log_probs: list[float] | None = None  # of each symbol that was stepped to, under the model alone; None: not wanted

    def __post_init__(self) -> None:
        self.fewest = max(self.fewest, 1 + max(self.forced, default=-1))

    @property
    def done(self) -> bool:
        return self.ended or len(self.symbols) >= self.most


D = TypeVar("D", bound=Draft)


class Batch(Generic[D]):
    """Up to `rows` drafts that are continued together; further ones wait for a free row.

    Between steps drafts may be added and cancelled: those beside them stay the same.
    """

    def __init__(self, engine: Engine, rows: int) -> None:
        self._engine, self._limit = engine, rows
        self._cache: Cache | None = None
        self._rows: list[D | None] = []  # None: its draft has left, and the next takes its place
        self._waiting: deque[D] = deque()

    def __len__(self) -> int:
        """Drafts that are not done, those that wait included."""
        return sum(draft is not None for draft in self._rows) + len(self._waiting)

    @property
    def free(self) -> int:
        """Rows that no draft has or waits for."""
        return max(0, self._limit - len(self))

    def add(self, draft: D) -> None:
        """Let a draft take part from the next step on, or as soon as a row is free."""
        self._waiting.append(draft)

    def cancel(self, draft: D) -> None:
        """Take a draft out; one that is done or cancelled already is no longer in it."""
        if draft in self._waiting:
            self._waiting.remove(draft)
        elif draft in self._rows:
            self._rows[self._rows.index(draft)] = None

    @torch.inference_mode()
    def step(self) -> list[D]:
        """Extend every draft that has a row by one symbol; returns them. Those that are done leave the batch."""
        finished = self._admit()
        active = [draft for draft in self._rows if draft is not None]
        if not active or self._cache is None:
            return finished
        engine = self._engine
        last = [draft.symbols[-1] if draft.symbols else engine.start for draft in active]
        logits = self._cache.step(last, [len(draft.symbols) for draft in active]).float().cpu().numpy()
        probs = {row: log_softmax(logits[row]) for row, each in enumerate(active) if each.log_probs is not None}
        chosen = next_symbols(logits, active, start=engine.start, end=engine.end)
        for row, (draft, drawn) in enumerate(zip(active, chosen.tolist(), strict=True)):
            symbol = draft.forced.get(len(draft.symbols), drawn) if draft.forced else drawn
            if draft.log_probs is not None:
                draft.log_probs.append(float(probs[row][symbol]))
            if symbol == engine.end:
                draft.ended = True
            else:
                draft.symbols.append(symbol)
            if draft.done:
                self._rows[row] = None
        return finished + active

    def _admit(self) -> list[D]:
        """Give free rows to those that wait, then close the gaps; returns drafts whose symbols were all given."""
        finished = []
        free = [row for row, draft in enumerate(self._rows) if draft is None]
        free += range(len(self._rows), min(self._limit, len(self._rows) + len(self._waiting)))
        while free and self._waiting:
            draft = self._waiting.popleft()
            while len(draft.symbols) in draft.forced and not draft.done:
                draft.symbols.append(draft.forced[len(draft.symbols)])
            if draft.done:
                finished.append(draft)
            else:
                self._place(free.pop(0), draft)
        for row in reversed(range(len(self._rows))):
            if self._rows[row] is None:
                final = self._rows.pop()
                if row < len(self._rows) and self._cache is not None:
                    self._cache.move_row(len(self._rows), row)
                    self._rows[row] = final
        return finished

    def _place(self, row: int, draft: D) -> None:
        if self._cache is None:
            rows = min(self._limit, 1 + len(self._waiting))
            self._cache = self._engine.new_cache(rows, len(draft.prompt) + draft.most)
        self._cache.add_row(row, draft.prompt, draft.latent, draft.symbols, draft.most)
        if row == len(self._rows):
            self._rows.append(draft)
        else:
            self._rows[row] = draft


def next_symbols(logits: Floats, drafts: Sequence[Draft], *, start: int, end: int) -> Ints:
    """Logits [B, V] (overwritten) to the next symbol of each draft [B], as its params have it."""
    for scores, draft in zip(logits, drafts, strict=True):
        penalty = draft.params.repetition_penalty or 1.0
        if penalty != 1.0:
            draft.penalised = draft.penalised or DistinctSymbols(start, {end, *draft.unpenalised}, draft.most)
            used = draft.penalised.of(draft.symbols)
            known = scores[used]
            scores[used] = np.where(known < 0, known * penalty, known / penalty)
        if draft.most_in_a_row is not None:
            scores[list(looping(draft.symbols, draft.most_in_a_row))] = -np.inf
        if draft.prompt_words is not None:
            draft.prompt_words.favour(scores, draft.symbols)
        if draft.favour is not None and (bias := draft.favour.bias_after(draft.symbols)):
            scores[list(draft.favour.symbols)] += bias
        if len(draft.symbols) < draft.fewest:
            scores[end] = -np.inf
    keys = np.array([draft.key for draft in drafts], dtype=np.uint64)
    positions = np.array([len(draft.symbols) for draft in drafts])
    return sample(logits, keys, positions, [draft.params for draft in drafts])


def looping(symbols: Sequence[int], times: int) -> Iterator[int]:
    """Symbols after which a block of at most `LONGEST_BLOCK` would stand more than so many times in a row."""
    for size in range(1, LONGEST_BLOCK + 1):
        tail = symbols[-(size * (times + 1) - 1) :]
        if len(tail) == size * (times + 1) - 1 and all(a == b for a, b in zip(tail, tail[size:], strict=False)):
            yield tail[-size]


def log_softmax(logits: Floats) -> Floats:
    """Logits [V] to log-probabilities [V]."""
    shifted = logits - logits.max()
    normalised: Floats = shifted - np.log(np.exp(shifted).sum())
    return normalised
