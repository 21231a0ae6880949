"""What each stage reads: rows of tokens into batches, with the corruption of that stage and step."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from discodvt.data.batches import NO_LABEL, Batch, Rows, collate, length_keys, padded
from discodvt.data.corruption import Denoiser, drop_words, generator, gumbel
from discodvt.data.tokens import Ragged, Tokens

Counts = dict[str, int]


class Feed(Protocol):
    """Batches of a split. `step` is the training step, or None for validation, which is never corrupted by chance."""

    def __len__(self) -> int: ...

    @property
    def sort_keys(self) -> Rows: ...

    def counts(self, rows: Rows) -> Counts: ...

    def batch(self, rows: Rows, *, step: int | None, noisy: bool, word_dropout: float = 0.0) -> Batch: ...


@dataclass(frozen=True, slots=True)
class StoryFeed:
    """Prompts and stories; while training, words dropped from the decoder input and Gumbel noise for the codes."""

    tokens: Tokens
    pad: int
    mask: int
    seed: int
    noise_shape: tuple[int, int] | None = None  # tokens per code, K; None: a stage without codes

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sort_keys(self) -> Rows:
        return length_keys(self.tokens.story_lengths, self.tokens.prompts.lengths)

    def counts(self, rows: Rows) -> Counts:
        return {
            "tokens": int(self.tokens.story_lengths[rows].sum()),
            "stories": len(rows),
            "pairs": int(self.tokens.pair_counts[rows].sum()),
        }

    def batch(self, rows: Rows, *, step: int | None, noisy: bool, word_dropout: float = 0.0) -> Batch:
        batch = collate(self.tokens, rows, pad=self.pad)
        if step is None:
            return batch
        if word_dropout > 0:
            dropped = [
                drop_words(
                    generator("words", seed=self.seed, step=step, story=int(row)),
                    self.tokens.stories[row][:-1],
                    share=word_dropout,
                    mask=self.mask,
                )
                for row in rows
            ]
            batch["decoder_ids"], _ = padded(dropped, self.pad)
        if noisy and self.noise_shape is not None:
            batch["noise"] = self._noise(rows, step, batch["story_ids"].shape[1])
        return batch

    def _noise(self, rows: Rows, step: int, length: int) -> torch.Tensor:
        """Gumbel noise [B, L, K], each story's its own whatever the batch around it."""
        assert self.noise_shape is not None
        per_code, vocabulary = self.noise_shape
        noise = np.zeros((len(rows), -(-length // per_code), vocabulary), dtype=np.float32)
        for place, row in enumerate(rows):
            codes = -(-int(self.tokens.story_lengths[row]) // per_code)
            random = generator("codes", seed=self.seed, step=step, story=int(row))
            noise[place, :codes] = gumbel(random, codes, vocabulary)
        return torch.from_numpy(noise)


@dataclass(frozen=True, slots=True)
class DenoisingFeed:
    """Stories to be restored from their corruption, which takes the place of the prompt."""

    tokens: Tokens
    pad: int
    seed: int
    denoiser: Denoiser

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def sort_keys(self) -> Rows:
        return self.tokens.story_lengths

    def counts(self, rows: Rows) -> Counts:
        return {"tokens": int(self.tokens.story_lengths[rows].sum()), "stories": len(rows)}

    def batch(self, rows: Rows, *, step: int | None, noisy: bool, word_dropout: float = 0.0) -> Batch:
        """In validation a story is always corrupted in the same way."""
        batch = collate(self.tokens, rows, pad=self.pad)
        corrupted = [
            self.denoiser(
                generator("denoising", seed=self.seed, step=step or 0, story=int(row)), self.tokens.stories[row]
            )
            for row in rows
        ]
        batch["prompt_ids"], batch["prompt_mask"] = padded(corrupted, self.pad)
        return batch


@dataclass(frozen=True, slots=True)
class PlanFeed:
    """Prompts and the plans of their stories, codes only."""

    prompts: Ragged
    plans: Ragged
    text_pad: int
    bos: int
    eos: int
    pad: int

    def __len__(self) -> int:
        return len(self.plans)

    @property
    def sort_keys(self) -> Rows:
        return length_keys(self.plans.lengths * 8, self.prompts.lengths)

    def counts(self, rows: Rows) -> Counts:
        """Every code and the end of each plan."""
        return {"codes": int(self.plans.lengths[rows].sum()) + len(rows), "stories": len(rows)}

    def batch(self, rows: Rows, *, step: int | None, noisy: bool, word_dropout: float = 0.0) -> Batch:
        """prompt_ids, prompt_mask [B, N]; plan_ids [B, L + 1], `bos z1 .. zL`; labels [B, L + 1], `z1 .. zL eos`."""
        plans = [self.plans[row] for row in rows]
        prompt_ids, prompt_mask = padded([self.prompts[row] for row in rows], self.text_pad)
        start, end = (np.array([symbol], dtype=np.int32) for symbol in (self.bos, self.eos))
        plan_ids, _ = padded([np.concatenate([start, plan]) for plan in plans], self.pad)
        labels, _ = padded([np.concatenate([plan, end]) for plan in plans], NO_LABEL)
        return {"prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "plan_ids": plan_ids, "labels": labels}
