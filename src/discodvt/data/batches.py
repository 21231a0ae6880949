"""The order of training, a pure function of seed, epoch and lengths, and its rows as batches of tensors.

Nothing is stored and nothing is iterated: step 70,000 is looked up, so a resumed run starts where it was, and every
process of a distributed run knows the whole step, its share of it, and the counts its losses are divided by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discodvt.data.tokens import Ints, Tokens
from discodvt.errors import BadRequest

Rows = NDArray[np.int64]
Batch = dict[str, Tensor]
NO_LABEL = -100
_MICRO_BATCHES_PER_POOL = 256  # stories are sorted by length within pools: large ones leave little padding


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Steps of `stories_per_step`, each of micro-batches of stories of nearly the same length."""

    sort_keys: Rows  # [N]; stories of neighbouring keys go together
    stories_per_step: int
    stories_per_micro_batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.steps_per_epoch == 0:
            raise BadRequest(
                f"{len(self.sort_keys)} training stories do not fill one step of {self.stories_per_step}; "
                "use more stories or set batch.stories_per_step lower"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Whole steps only: the few stories left over are others in every epoch."""
        return len(self.sort_keys) // self.stories_per_step

    def step(self, number: int) -> Rows:
        """The micro-batches [M, stories] of a step, counted from 0 over all epochs."""
        epoch, within = divmod(number, self.steps_per_epoch)
        per_step = self.stories_per_step // self.stories_per_micro_batch
        return _epoch(self, epoch)[within * per_step : (within + 1) * per_step]


@lru_cache(maxsize=2)
def _epoch(order: Order, epoch: int) -> Rows:
    """All micro-batches of an epoch: shuffle stories, sort pools of them by length, shuffle the micro-batches."""
    random = np.random.default_rng([order.seed, epoch])
    size = order.stories_per_micro_batch
    stories = random.permutation(len(order.sort_keys))[: order.steps_per_epoch * order.stories_per_step]
    pool = size * _MICRO_BATCHES_PER_POOL
    pools = [stories[start : start + pool] for start in range(0, len(stories), pool)]
    ordered = [pool[np.argsort(order.sort_keys[pool], kind="stable")] for pool in pools]
    micro_batches = np.concatenate(ordered).reshape(-1, size)
    return random.permutation(micro_batches)


def length_keys(story_lengths: Rows, prompt_lengths: Rows) -> Rows:
    """Sort keys that bring together stories of one length, to eight tokens, and among them prompts of one length."""
    keys: Rows = -(-story_lengths // 8) * (prompt_lengths.max(initial=0) + 1) + prompt_lengths
    return keys


def in_order(story_lengths: Rows, size: int, *, stories: int | None = None) -> list[Rows]:
    """Batches for validation, by length: every story once, or `stories` of them, spread over all lengths."""
    order = np.argsort(story_lengths, kind="stable")
    if stories is not None and stories < len(order):
        order = order[(2 * np.arange(stories) + 1) * len(order) // (2 * stories)]
    return [order[start : start + size] for start in range(0, len(order), size)]


def collate(tokens: Tokens, rows: Rows, *, pad: int) -> Batch:
    """The stories `rows` as a batch.

    prompt_ids, prompt_mask [B, N]; story_ids, story_mask [B, T], what the generator reads, `start y1 .. yM`;
    labels [B, T], `y1 .. yM end`; pooling [B, S, T], pairs [P, 2] and relations [P] of neighbouring EDUs (see
    `RelationHead`).
    """
    prompts = [tokens.prompts[row] for row in rows]
    stories = [tokens.stories[row] for row in rows]
    prompt_ids, prompt_mask = padded(prompts, pad)
    story_ids, story_mask = padded([story[:-1] for story in stories], pad)
    labels, _ = padded([story[1:] for story in stories], NO_LABEL)
    batch = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "story_ids": story_ids,
        "story_mask": story_mask,
        "labels": labels,
    }
    return batch | _edus(
        [tokens.edus[row] for row in rows], [tokens.relations[row] for row in rows], story_ids.shape[1]
    )


def padded(rows: Sequence[Ints], filling: int) -> tuple[Tensor, Tensor]:
    """Rows to a matrix [B, longest] of int64 and its mask of ones and zeros."""
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(lengths.max()) < lengths[:, None]
    matrix = np.full(mask.shape, filling, dtype=np.int64)
    matrix[mask] = np.concatenate(rows)
    return torch.from_numpy(matrix), torch.from_numpy(mask.astype(np.int64))


def _edus(boundaries: Sequence[Ints], relations: Sequence[Ints], length: int) -> Batch:
    """Averaging weights for every EDU, and the pairs that have a label."""
    most = max(1, *(len(row) - 1 for row in boundaries)) if boundaries else 1
    pooling = np.zeros((len(boundaries), most, length), dtype=np.float32)
    pairs, labels = [], []
    for story, (edges, given) in enumerate(zip(boundaries, relations, strict=True)):
        for number, (start, end) in enumerate(pairwise(edges)):
            if end > start:
                pooling[story, number, start:end] = 1 / (end - start)
        kept = np.flatnonzero(given >= 0)
        pairs += [(story, left) for left in kept]
        labels += given[kept].tolist()
    return {
        "pooling": torch.from_numpy(pooling),
        "pairs": torch.tensor(np.array(pairs, dtype=np.int64).reshape(-1, 2)),
        "relations": torch.tensor(labels, dtype=torch.long),
    }
