"""Rows of tokens into one batch of tensors, right-padded."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from discodvt.data.batches import Rows
from discodvt.data.ragged import Ints
from discodvt.data.tokens import Tokens

Batch = dict[str, Tensor]
NO_LABEL = -100


def collate(tokens: Tokens, rows: Rows, *, pad: int) -> Batch:
    """The stories `rows` as a batch.

    prompt_ids, prompt_mask [B, N]; story_ids, story_mask [B, T], the decoder input `<s> y1 .. yM`; labels [B, T],
    `y1 .. yM </s>`; pooling [B, S, T], pairs [P, 2] and relations [P] of neighbouring EDUs (see `RelationHead`).
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
