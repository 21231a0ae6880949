"""A probe: how well a fresh head predicts relations from frozen plans (section 3.3).

The head is the model's own kind, new for every probe, trained on the mean latents of EDU pairs at argmax codes. Latents
are first brought to mean 0 and variance 1 per dimension, which the head's first layer could undo, so that models
whose latents differ in scale are trained alike. Training stops when the loss on every tenth story no longer falls:
probes stopped at a fixed early step rank models by how fast they are learned, which can turn a comparison round.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from discodvt.discourse.labels import LABELS, UNKNOWN
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.inference import EduPairs
from discodvt.evaluation.metric import Floats
from discodvt.model.relation_head import RelationHead

MARKER_LABELS = LABELS.index(UNKNOWN)
HELD_OUT = 10
PAIRS_PER_STEP = 256
LOOK_EVERY_STEPS = 100
PATIENCE_LOOKS = 5
LEAST_GAIN = 1e-3  # nats a pair: what counts as progress
SLOWEST = 1e-4  # learning rate


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe's answers: 1 for every pair it got right [P]; and whether it had learned all it could."""

    hits: Floats
    steps: int
    converged: bool


def marker_logits(head: RelationHead, left: Tensor, right: Tensor) -> Tensor:
    """The head's scores [P, 20] of marker labels; to the head each pair is a story of two EDUs, one position long."""
    count = len(left)
    pairs = torch.stack([torch.arange(count), torch.zeros(count, dtype=torch.long)], dim=1).to(left.device)
    pooling = torch.eye(2, device=left.device).expand(count, 2, 2)
    logits: Tensor = head(torch.stack([left, right], dim=1), pooling, pairs)
    return logits[:, :MARKER_LABELS]


@torch.no_grad()
def right_answers(head: RelationHead, pairs: EduPairs) -> Floats:
    """1 for every pair whose label is the likeliest marker label [P]."""
    device = next(head.parameters()).device
    chunks = zip(pairs.left.split(4096), pairs.right.split(4096), pairs.labels.split(4096), strict=True)
    right = [
        (marker_logits(head, left.to(device), after.to(device)).argmax(-1).cpu() == labels)
        for left, after, labels in chunks
    ]
    return torch.cat(right).double().numpy() if right else np.zeros(0)


def probe(train: EduPairs, test: EduPairs, *, relation_width: int, max_steps: int = 20_000, seed: int = 0) -> Probed:
    """Train a fresh head on `train` until it learns no more, and let it answer `test`."""
    chooses = torch.from_numpy(train.story % HELD_OUT == 0)
    if not chooses.any() or chooses.all():
        raise BadRequest(
            "too few training pairs joined by a marker for a probe; give more with `train_stories`",
            parameter="train_stories",
        )
    both = torch.cat([train.left, train.right])
    mean, deviation = both.mean(0), both.std(0).clamp(min=1e-6)
    scaled, asked = (
        EduPairs((pairs.left - mean) / deviation, (pairs.right - mean) / deviation, pairs.labels, pairs.story)
        for pairs in (train, test)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = RelationHead(both.shape[1], relation_width, MARKER_LABELS)
        steps, converged = _fit(head, scaled, chooses, max_steps=max_steps)
    return Probed(right_answers(head, asked), steps, converged)


def _fit(head: RelationHead, pairs: EduPairs, chooses: Tensor, *, max_steps: int) -> tuple[int, bool]:
    """Train with Adam, slower whenever the loss of held-out stories stands still, until slower does not help."""
    rows, held = torch.nonzero(~chooses).squeeze(1), torch.nonzero(chooses).squeeze(1)
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.3, patience=PATIENCE_LOOKS, threshold=LEAST_GAIN, threshold_mode="abs"
    )
    best, kept = math.inf, {name: weight.clone() for name, weight in head.state_dict().items()}
    step, converged = 0, False
    while step < max_steps and not converged:
        optimizer.zero_grad()
        _loss(head, pairs, rows[torch.randint(len(rows), (PAIRS_PER_STEP,))]).backward()
        optimizer.step()
        step += 1
        if step % LOOK_EVERY_STEPS == 0:
            with torch.no_grad():
                loss = float(_loss(head, pairs, held))
            if loss < best:
                best, kept = loss, {name: weight.clone() for name, weight in head.state_dict().items()}
            schedule.step(loss)
            converged = optimizer.param_groups[0]["lr"] < SLOWEST
    head.load_state_dict(kept)
    return step, converged


def _loss(head: RelationHead, pairs: EduPairs, rows: Tensor) -> Tensor:
    return F.cross_entropy(marker_logits(head, pairs.left[rows], pairs.right[rows]), pairs.labels[rows])
