"""MAUVE (Pillutla et al. 2021), by the optional package `mauve-text` (GPL: never a dependency, imported only here).

The package measures how far two clouds of features lie apart. It opens models by name and knows few, so the features
are taken here, as it would take them: of each text the last layer's state at the last token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from discodvt.checkpoints import Checkpoint, best_device
from discodvt.errors import BadRequest
from discodvt.evaluation.encoder import open_encoder
from discodvt.evaluation.metric import Floats, Metric, Resampling, Weights
from discodvt.evaluation.metrics.word_tokens import Text, as_line

LONGEST_TOKENS = 1024  # of a text, as in the package
TEXTS_PER_BATCH = 8


@dataclass(frozen=True, kw_only=True)
class Mauve(Metric):
    """One number for two sets of texts; without interval, since each resample would cluster all texts again."""

    value: float
    resampling: Resampling = "none"

    @property
    def values(self) -> Floats:
        return np.array([self.value])

    def under(self, weights: Weights) -> Floats:
        raise NotImplementedError("MAUVE is not resampled")


def mauve(hypotheses: Sequence[Text], references: Sequence[Text], *, model: str, seed: int) -> Mauve:
    """MAUVE of the stories against the references in the features of a model (a directory or Hub id)."""
    try:
        package = import_module("mauve")
    except ModuleNotFoundError:
        raise BadRequest("MAUVE is not installed; pip install 'discodvt[mauve]' (GPL), or leave it out") from None
    human, ours = (features(model, tuple(map(as_line, texts))) for texts in (references, hypotheses))
    found = package.compute_mauve(p_features=human, q_features=ours, seed=seed, verbose=False)
    facts = f"model:{model}|features:last-token|buckets:{found.num_buckets}|seed:{seed}"
    definition = f"mauve|{facts}|version:{version('mauve-text')}"
    return Mauve(names=("MAUVE",), definitions=(definition,), value=float(found.mauve))


@lru_cache(maxsize=3)  # stories, references, and the stories of a second system
@torch.no_grad()
def features(source: str, texts: tuple[str, ...]) -> Floats:
    """The last layer's state at the last token of each text [N, D]."""
    checkpoint, device = Checkpoint.open(source), best_device()
    model, tokenizer = open_encoder(checkpoint, device=device).model, checkpoint.tokenizer()
    positions = getattr(model.config, "max_position_embeddings", LONGEST_TOKENS)
    longest = min(LONGEST_TOKENS, positions, tokenizer.model_max_length)
    states = []
    for start in range(0, len(texts), TEXTS_PER_BATCH):
        batch = tokenizer(list(texts[start : start + TEXTS_PER_BATCH]), truncation=True, max_length=longest)
        rows = [torch.tensor(row) for row in batch["input_ids"]]
        ids, mask = (pad_sequence(each, batch_first=True) for each in (rows, [torch.ones_like(row) for row in rows]))
        last = model(input_ids=ids.to(device), attention_mask=mask.to(device)).last_hidden_state  # [B, T, D]
        states.append(last[torch.arange(len(rows)), mask.sum(dim=1) - 1].cpu())
    return np.asarray(torch.cat(states).float().numpy())
