"""A probe: how much of the relations can be told from frozen plans by a fresh head (section 3.3).

The head is the model's own kind, new for every probe, trained on the mean latents of EDU pairs at argmax codes. Latents
are first brought to mean 0 and variance 1 per dimension, which the head's first layer could undo, so that models
whose latents differ in scale are trained alike. Every tenth training story chooses when to stop.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.discourse.labels import LABELS, UNKNOWN
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.reading import Pairs
from discodvt.evaluation.grams import Floats
from discodvt.model.relations import RelationHead

MARKER_LABELS = LABELS.index(UNKNOWN)
HELD_OUT = 10
PAIRS_PER_STEP = 256
LOOK_EVERY_STEPS = 50


def marker_logits(head: RelationHead, left: Tensor, right: Tensor) -> Tensor:
    """The head's scores [P, 20] of marker labels; to the head each pair is a story of two EDUs, one position long."""
    count = len(left)
    pairs = torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.long)], dim=1).to(left.device)
    pooling = torch.eye(2, device=left.device).expand(count, 2, 2)
    logits: Tensor = head(torch.stack([left, right], dim=1), pooling, pairs)
    return logits[:, :MARKER_LABELS]


@torch.no_grad()
def right_answers(head: RelationHead, pairs: Pairs) -> Floats:
    """1 for every pair whose label is the likeliest marker label [P]."""
    device = next(head.parameters()).device
    chunks = zip(pairs.left.split(4096), pairs.right.split(4096), pairs.labels.split(4096), strict=True)
    right = [
        (marker_logits(head, left.to(device), after.to(device)).argmax(-1).cpu() == labels)
        for left, after, labels in chunks
    ]
    return torch.cat(right).double().numpy() if right else np.zeros(0)


def probe(train: Pairs, test: Pairs, *, relation_width: int, steps: int = 1000, seed: int = 0) -> Floats:
    """Train a fresh head on `train` and answer `test`: 1 for every pair it gets right [P]."""
    chooses = torch.from_numpy(train.story % HELD_OUT == 0)
    if not chooses.any() or chooses.all():
        raise BadRequest("too few training pairs joined by a marker for a probe; give more with --train-stories")
    both = torch.cat([train.left, train.right])
    mean, deviation = both.mean(0), both.std(0).clamp(min=1e-6)
    scaled, asked = (
        Pairs((pairs.left - mean) / deviation, (pairs.right - mean) / deviation, pairs.labels, pairs.story)
        for pairs in (train, test)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = _fit(RelationHead(both.shape[1], relation_width, MARKER_LABELS), scaled, chooses, steps=steps)
    return right_answers(head, asked)


def _fit(head: RelationHead, pairs: Pairs, chooses: Tensor, *, steps: int) -> RelationHead:
    """Adam, the learning rate falling to 0; the weights with the lowest loss on held-out stories."""
    rows, held = torch.nonzero(~chooses).squeeze(1), torch.nonzero(chooses).squeeze(1)
    optimiser = torch.optim.Adam(head.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, total_iters=steps)
    best, kept = math.inf, head.state_dict()
    for step in range(1, steps + 1):
        optimiser.zero_grad()
        _loss(head, pairs, rows[torch.randint(len(rows), (PAIRS_PER_STEP,))]).backward()
        optimiser.step()
        schedule.step()
        if step % LOOK_EVERY_STEPS == 0:
            with torch.no_grad():
                loss = float(_loss(head, pairs, held))
            if loss < best:
                best, kept = loss, {name: weight.clone() for name, weight in head.state_dict().items()}
    head.load_state_dict(kept)
    return head


def _loss(head: RelationHead, pairs: Pairs, rows: Tensor) -> Tensor:
    return F.cross_entropy(marker_logits(head, pairs.left[rows], pairs.right[rows]), pairs.labels[rows])
