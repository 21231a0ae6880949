"""The plans of a corpus: every story read once by a trained posterior, for the prior to learn (section 3.4)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from discodvt.data.batches import in_order, padded
from discodvt.data.tokens import Ints, Ragged, Tokens
from discodvt.model import DiscoDVT


@torch.no_grad()
def read_plans(
    model: DiscoDVT,
    tokens: Tokens,
    *,
    device: torch.device,
    stories_per_batch: int,
    tell: Callable[[int], None] = lambda done: None,
) -> Ragged:
    """The argmax codes of every story, in its order."""
    torch.nn.Module.to(model, device).eval()
    pad = model.config.pad_token_id or 0
    plans: list[Ints] = [np.empty(0, dtype=np.int32)] * len(tokens)
    for rows in in_order(tokens.story_lengths, stories_per_batch):
        ids, mask = padded([tokens.stories[row][:-1] for row in rows], pad)
        codes = model.plan(ids.to(device), mask.to(device)).cpu().numpy().astype(np.int32)
        for row, plan in zip(rows, codes, strict=True):
            plans[row] = plan[plan < model.config.num_codes]
        tell(len(rows))
    return Ragged.of(plans)


def save_plans(path: Path, plans: dict[str, Ragged]) -> None:
    """Plans by split, in one safetensors file."""
    arrays: dict[str, NDArray[Any]] = {}
    for split, ragged in plans.items():
        arrays |= {f"{split}.values": ragged.values, f"{split}.offsets": ragged.offsets}
    save_file(arrays, path)


def load_plans(path: Path) -> dict[str, Ragged]:
    arrays = load_file(path)
    splits = sorted({name.partition(".")[0] for name in arrays})
    return {split: Ragged(arrays[f"{split}.values"], arrays[f"{split}.offsets"]) for split in splits}
