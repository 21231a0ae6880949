"""Prompts and stories as batches, with what training does to them at a step: words dropped, noise for the codes,
plans weakened."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from discodvt.config import WordDropout
from discodvt.data.batches import Batch, Rows, collate, length_keys, padded
from discodvt.data.corruption import drop_words, generator, gumbel
from discodvt.data.tokens import Tokens
from discodvt.training.stages import Counts


@dataclass(frozen=True, slots=True)
class DropoutSchedule:
    """The share of words dropped at a step, a pure function of its number."""

    rate: float = 0.0
    steps: float = math.inf  # over which it falls to 0

    @classmethod
    def over(cls, total: int, dropout: WordDropout) -> "DropoutSchedule":
        return cls(dropout.rate, math.inf if dropout.until is None else dropout.until * total)

    def __call__(self, step: int) -> float:
        return self.rate * max(0.0, 1 - step / self.steps)


@dataclass(frozen=True, slots=True)
class Noise:
    """Gumbel noise for codes: one row of `width` draws for each of the codes of a story, from a step on."""

    tokens_per_code: int
    width: int
    from_step: int = 0


@dataclass(frozen=True, slots=True)
class WeakPlans:
    """Plans of a share of the stories get a strength, drawn between two; as large a part of their codes is kept."""

    tokens_per_code: int
    num_codes: int
    share: float
    strengths: tuple[float, float]


@dataclass(frozen=True, slots=True)
class StoryFeed:
    """Prompts and stories; while training, words dropped from the decoder input and Gumbel noise for the codes."""

    tokens: Tokens
    pad: int
    mask: int
    seed: int
    word_dropout: DropoutSchedule = field(default_factory=DropoutSchedule)
    noise: Noise | None = None  # None: a stage without codes
    weak_plans: WeakPlans | None = None  # None: plans are what the posterior reads

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sort_keys(self) -> Rows:
        return length_keys(self.tokens.story_lengths, self.tokens.prompts.lengths)

    def counts(self, rows: Rows) -> Counts:
        lengths = self.tokens.story_lengths[rows]
        codes = {} if self.noise is None else {"codes": int((-(-lengths // self.noise.tokens_per_code)).sum())}
        return {
            "tokens": int(lengths.sum()),
            "stories": len(rows),
            "pairs": int(self.tokens.pair_counts[rows].sum()),
            **codes,
        }

    def batch(self, rows: Rows, *, step: int | None) -> Batch:
        batch = collate(self.tokens, rows, pad=self.pad)
        if step is None:
            return batch
        share = self.word_dropout(step)
        if share > 0:
            dropped = [
                drop_words(
                    generator("words", seed=self.seed, step=step, story=int(row)),
                    self.tokens.stories[row][:-1],
                    share=share,
                    mask=self.mask,
                )
                for row in rows
            ]
            batch["decoder_ids"], _ = padded(dropped, self.pad)
        if self.noise is not None and step >= self.noise.from_step:
            batch["noise"] = self._draw(self.noise, rows, step, batch["story_ids"].shape[1])
        if self.weak_plans is not None:
            batch |= self._weaken(self.weak_plans, rows, step, batch["story_ids"].shape[1])
        return batch

    def _weaken(self, plans: WeakPlans, rows: Rows, step: int, length: int) -> Batch:
        """The strength of each story's plan [B], and random codes [B, L] where it loses its own, -1 elsewhere."""
        strengths = np.empty((len(rows), 1), dtype=np.float32)
        other = np.full((len(rows), -(-length // plans.tokens_per_code)), -1)
        for place, row in enumerate(rows):
            codes = -(-int(self.tokens.story_lengths[row]) // plans.tokens_per_code)
            random = generator("plan", seed=self.seed, step=step, story=int(row))
            strengths[place] = random.uniform(*plans.strengths) if random.random() < plans.share else 1
            drawn = random.integers(plans.num_codes, size=codes)
            other[place, :codes] = np.where(random.random(codes) < strengths[place], -1, drawn)
        return {"plan_strength": torch.from_numpy(strengths[:, 0]), "other_codes": torch.from_numpy(other)}

    def _draw(self, noise: Noise, rows: Rows, step: int, length: int) -> torch.Tensor:
        """Gumbel noise [B, L, width], each story's its own whatever the batch around it."""
        drawn = np.zeros((len(rows), -(-length // noise.tokens_per_code), noise.width), dtype=np.float32)
        for place, row in enumerate(rows):
            codes = -(-int(self.tokens.story_lengths[row]) // noise.tokens_per_code)
            random = generator("codes", seed=self.seed, step=step, story=int(row))
            drawn[place, :codes] = gumbel(random, codes, noise.width)
        return torch.from_numpy(drawn)
