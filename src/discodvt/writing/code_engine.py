"""The prior of a causal model as an engine of codes: they are the last words of a language model of their own."""

from collections.abc import Sequence

import torch
from torch import Tensor

from discodvt.writing.engine import Cache, Engine


class CodeEngine(Engine):
    """Prompt in, codes out: of K + 3 symbols K are codes, K + 1 is the end, and neither bos (K) nor pad is drawn."""

    def __init__(self, engine: Engine, *, words: int, codes: int) -> None:
        """`engine` runs the language model, whose codes come after so many `words`; its stories start with bos."""
        self.engine, self.words, self.codes = engine, words, codes
        self.name, self.device = engine.name, engine.device
        self.prompt_start, self.prompt_end = engine.prompt_start, engine.prompt_end
        self.start, self.end = codes, codes + 1

    def new_cache(self, rows: int, length: int) -> "CodeCache":
        return CodeCache(self, rows, length)

    def room(self, prompt: int) -> int:
        return self.engine.room(prompt)


class CodeCache(Cache):
    """The cache of the language model, its words numbered as codes."""

    def __init__(self, engine: CodeEngine, rows: int, length: int) -> None:
        self._words, self._cache = engine.words, engine.engine.new_cache(rows, length)
        self._never = torch.tensor([engine.codes, engine.codes + 2], device=engine.device)

    def add_row(self, row: int, prompt: Sequence[int], latent: Tensor | None, told: Sequence[int], most: int) -> None:
        self._cache.add_row(row, prompt, latent, [self._words + code for code in told], most)

    def move_row(self, source: int, target: int) -> None:
        self._cache.move_row(source, target)

    def step(self, last: Sequence[int], positions: Sequence[int]) -> Tensor:
        logits = self._cache.step([self._words + code for code in last], positions)[:, self._words :]
        return logits.index_fill(1, self._never, float("-inf"))
