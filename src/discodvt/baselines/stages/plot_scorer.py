"""Stage `scorer`: a rescorer learns to tell real continuations of plots from changed ones (section 4.3).

Reads `pairs/KIND/` of the plots stage. Both sides of a pair are in one batch. Accuracy is over single continuations, as
the rescorers are used; its interval is Wilson's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from transformers import PreTrainedTokenizerBase

from discodvt.baselines.plot_corpus import PAIR_SCHEMA
from discodvt.baselines.plots import add_tags
from discodvt.baselines.scorers import CHANGED, REAL, ScorerModel, scorer_input, scorer_loss
from discodvt.baselines.stages.text_writers import make_room
from discodvt.checkpoints import Checkpoint
from discodvt.config import LossValidation, NewBackbone
from discodvt.corpus import read_rows, split_files
from discodvt.data.batches import Batch, Rows, padded
from discodvt.data.subwords import encode
from discodvt.data.tokens import Ints
from discodvt.training.assembly import Corpus, FromScratch, Site
from discodvt.training.stages import Counts, Figures, Objective, Stage, StageOutput, Tallies, Term
from discodvt.training.weights import language_model


class ScorerBackbone(NewBackbone):
    layers: int | None = Field(default=None, ge=1, description="Layers of the backbone that read plots")
    head_dropout: float = Field(default=0.1, ge=0, lt=1)


@dataclass(frozen=True, slots=True)
class PairFeed:
    """Pairs: for each a real and a changed continuation, behind the same context."""

    real: list[Ints]
    changed: list[Ints]
    pad: int

    def __len__(self) -> int:
        return len(self.real)

    @property
    def sort_keys(self) -> Rows:
        return np.array([len(row) for row in self.real], dtype=np.int64)

    def counts(self, rows: Rows) -> Counts:
        return {"pairs": 2 * len(rows), "stories": len(rows)}

    def batch(self, rows: Rows, *, step: int | None) -> Batch:
        """ids and mask [2B, T], real ones first; labels [2B]."""
        ids, mask = padded([side[row] for side in (self.real, self.changed) for row in rows], self.pad)
        labels = torch.tensor([REAL] * len(rows) + [CHANGED] * len(rows))
        return {"ids": ids, "mask": mask, "labels": labels}


class ScorerObjective(Objective):
    """A rescorer under cross entropy."""

    model: ScorerModel
    terms = {"cross_entropy": Term(1.0, "pairs")}  # noqa: RUF012

    def forward(self, batch: Batch, step: int | None = None) -> StageOutput:
        logits = self.model(batch["ids"], batch["mask"])
        real, changed = logits[:, REAL].detach().chunk(2)
        margin = real - logits[:, CHANGED].detach().chunk(2)[0] > changed - logits[:, CHANGED].detach().chunk(2)[1]
        hits = torch.stack(
            [
                (logits.argmax(-1) == batch["labels"]).sum(),
                margin.sum(),
                torch.tensor(len(margin), device=logits.device),
            ]
        )
        return StageOutput({"cross_entropy": scorer_loss(logits, batch["labels"])}, {"hits": hits})

    def figures(self, tallies: Tallies) -> Figures:
        right, ordered, pairs = (int(value) for value in tallies["hits"])
        low, high = wilson(right, 2 * pairs)
        return {
            "accuracy": right / max(1, 2 * pairs),
            "accuracy_low": low,
            "accuracy_high": high,
            "pair_accuracy": ordered / max(1, pairs),
            "pairs": float(pairs),
        }


class Scorer(FromScratch):
    summary = "A rescorer of plots: how likely a continuation is a real one (Aristotelian Rescoring)."

    stage: Literal["scorer"]
    model: ScorerBackbone = ScorerBackbone()
    validation: LossValidation = LossValidation()

    def contradictions(self) -> list[str]:
        wrong = super().contradictions()
        if self.data.tokens is not None:
            wrong.append("data.tokens: a rescorer reads pairs, not stories; leave it out")
        return wrong

    def open_tokenizer(self, last: Path | None) -> PreTrainedTokenizerBase:
        tokenizer = super().open_tokenizer(last)
        add_tags(tokenizer)
        return tokenizer

    def build(self, corpus: Corpus, site: Site) -> Stage:
        if site.last is not None:
            model: ScorerModel = Checkpoint.open(site.last).load(ScorerModel)
        else:
            backbone: Any = language_model(self.model, corpus.tokenizer, None)
            make_room(backbone, corpus.tokenizer)
            sizes = {"layers": self.model.layers, "head_dropout": self.model.head_dropout}
            model = ScorerModel.from_backbone(backbone, **sizes)
        files = split_files(self.data.corpus)
        limits = (self.data.max_train_stories, self.data.max_valid_stories)
        train, valid = (
            self._feed(files[split], corpus.tokenizer, limit)
            for split, limit in zip(("train", "valid"), limits, strict=True)
        )
        return self.staged(ScorerObjective(model), train, valid, corpus)

    def keep_lengths(self, stage: Stage) -> None:
        """A scorer writes nothing."""

    def _feed(self, path: Path, tokenizer: PreTrainedTokenizerBase, limit: int | None) -> PairFeed:
        rows = list(read_rows(path, PAIR_SCHEMA, take=limit))
        longest, pad = self.data.story_tokens, tokenizer.pad_token_id
        real, changed = (encode_pairs(tokenizer, rows, side, longest=longest) for side in ("story", "changed"))
        return PairFeed(real, changed, pad)


def encode_pairs(
    tokenizer: PreTrainedTokenizerBase, rows: Sequence[dict[str, Any]], side: str, *, longest: int
) -> list[Ints]:
    """Context and one side of each pair, as a rescorer reads them while plots are written."""
    contexts = encode(tokenizer.backend_tokenizer, (row["prompt"] for row in rows))
    rest = encode(tokenizer.backend_tokenizer, (row[side] for row in rows))
    return [
        np.array(scorer_input(context.ids, plot.ids, longest=longest), dtype=np.int32)
        for context, plot in zip(contexts, rest, strict=True)
    ]


def wilson(hits: int, count: int, *, z: float = 1.96) -> tuple[float, float]:
    """The 95% interval of a share (Wilson 1927)."""
    if count == 0:
        return 0.0, 1.0
    share = hits / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half
