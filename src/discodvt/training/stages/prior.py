"""Stage `prior`: prompts to the argmax codes of their stories (section 3.4).

Every story is read once by the trained posterior; its plan is kept in `plans.safetensors`. The run's directory is a
whole writer: the DiscoDVT that was given, and the prior in `prior/`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from discodvt.checkpoints import Checkpoint
from discodvt.config import Backbone, Batch, Latent, LossValidation, Writing
from discodvt.data.batches import NO_LABEL, Rows, in_order, length_keys, padded
from discodvt.data.batches import Batch as TensorBatch
from discodvt.data.mapped_arrays import create_arrays, map_arrays
from discodvt.data.tokens import Column, Ragged, Tokens
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT
from discodvt.model.prior import Prior as PlanPrior
from discodvt.model.prior import load_prior
from discodvt.resumable import replacing
from discodvt.training import losses
from discodvt.training.assembly import Corpus, Recipe, Site
from discodvt.training.stages import Counts, Objective, Stage, StageOutput, Term
from discodvt.training.weights import prior_model, trained_model

PLANS = "plans.safetensors"


class PriorModel(Backbone, Latent):
    """The DiscoDVT whose plans are learned."""

    init: str = Field(description="Directory or Hub id of a trained DiscoDVT")
    prior_encoder: str | None = Field(
        default=None, description="BART whose encoder starts the prior; none: that of `init`"
    )
    prior_layers: int | None = Field(
        default=None, ge=1, description="Layers of a causal language model that make the prior; none: all"
    )


class PlanLengths(Writing):
    min_codes: int | None = Field(default=None, ge=1, description="Codes of a plan; none: 1")


class PriorObjective(Objective):
    """A prior that learns plans; beside a causal model its layers are the backbone's."""

    backbone_parts = ("language_model",)

    model: PlanPrior
    terms = {"prior": Term(1.0, "codes")}  # noqa: RUF012

    def forward(self, batch: TensorBatch, step: int | None = None) -> StageOutput:
        logits = self.model(
            batch["prompt_ids"], batch["prompt_mask"], decoder_input_ids=batch["plan_ids"], use_cache=False
        ).logits
        return StageOutput({"prior": losses.prior(logits, batch["labels"])})


@dataclass(frozen=True, slots=True)
class PlanFeed:
    """Prompts and the plans of their stories, codes only."""

    prompts: Column
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

    def batch(self, rows: Rows, *, step: int | None) -> TensorBatch:
        """prompt_ids, prompt_mask [B, N]; plan_ids [B, L + 1], `bos z1 .. zL`; labels [B, L + 1], `z1 .. zL eos`."""
        plans = [self.plans[row] for row in rows]
        prompt_ids, prompt_mask = padded([self.prompts[row] for row in rows], self.text_pad)
        start, end = (np.array([symbol], dtype=np.int32) for symbol in (self.bos, self.eos))
        plan_ids, _ = padded([np.concatenate([start, plan]) for plan in plans], self.pad)
        labels, _ = padded([np.concatenate([plan, end]) for plan in plans], NO_LABEL)
        return {"prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "plan_ids": plan_ids, "labels": labels}


class Prior(Recipe):
    summary = "A prior over the codes of a DiscoDVT: prompt in, plan out."

    stage: Literal["prior"]
    model: PriorModel
    batch: Batch = Batch(stories_per_step=1024, stories_per_micro_batch=128)
    validation: LossValidation = LossValidation()
    writing: PlanLengths = PlanLengths()

    @property
    def sources(self) -> list[str]:
        return [source for source in (self.model.init, self.model.prior_encoder) if source is not None]

    def build(self, corpus: Corpus, site: Site) -> Stage:
        planner = trained_model(self.model, self.model)
        longest = -(-self.data.story_tokens // planner.config.tokens_per_code)
        if (self.writing.min_codes or 0) > longest:
            raise BadRequest(
                f"writing.min_codes: {self.writing.min_codes} is more than the {longest} codes of data.story_tokens; "
                "set it lower"
            )
        if site.last is None:
            prior = prior_model(
                planner,
                self.model,
                layers=self.model.prior_layers,
                max_codes=longest,
                encoder=self.model.prior_encoder,
                source=self.model.init,
            )
        else:
            prior = load_prior(Checkpoint.open(site.last))
        plans = self._plans(planner, corpus, site)
        config = prior.config
        train, valid = (
            PlanFeed(
                tokens.prompts,
                plans[split],
                text_pad=config.text_pad_token_id,
                bos=config.bos_token_id,
                eos=config.eos_token_id,
                pad=config.pad_token_id,
            )
            for split, tokens in (("train", corpus.train), ("valid", corpus.valid))
        )
        return self.staged(PriorObjective(prior), train, valid, corpus, around=planner, inside="prior")

    def _plans(self, planner: DiscoDVT, corpus: Corpus, site: Site) -> dict[str, Ragged]:
        """The plans of both splits, read by the first process and kept."""
        path = site.directory / PLANS
        splits = {"train": corpus.train, "valid": corpus.valid}
        done, total = 0, sum(map(len, splits.values()))

        def tell(stories: int) -> None:
            nonlocal done
            done += stories
            site.progress("reading plans", done, total)

        def read() -> None:
            if path.exists():
                return
            with replacing(path) as partial:
                for split, plans in create_plans(partial, planner, splits).items():
                    read_plans(
                        planner,
                        splits[split],
                        device=site.accelerator.device,
                        stories_per_batch=self.validation.stories_per_batch,
                        into=plans,
                        progress=tell,
                    )

        site.on_first(read)
        return load_plans(path)

    def keep_lengths(self, stage: Stage) -> None:
        super().keep_lengths(stage)
        if self.writing.min_codes is not None:
            stage.objective.model.generation_config.min_new_tokens = self.writing.min_codes


@torch.no_grad()
def read_plans(
    model: DiscoDVT,
    tokens: Tokens,
    *,
    device: torch.device,
    stories_per_batch: int,
    into: Ragged | None = None,
    progress: Callable[[int], None] = lambda stories: None,
) -> Ragged:
    """The argmax codes of every story, in its order; `into` gives them room, `progress` is told of every batch."""
    torch.nn.Module.to(model, device).eval()
    pad = model.symbols.pad
    if into is None:
        offsets = np.concatenate([[0], np.cumsum(_codes(model, tokens))])
        into = Ragged(np.empty(offsets[-1], dtype=np.int32), offsets)
    for rows in in_order(tokens.story_lengths, stories_per_batch):
        ids, mask = padded([tokens.stories[row][:-1] for row in rows], pad)
        codes = model.plan(ids.to(device), mask.to(device)).cpu().numpy().astype(np.int32)
        for row, plan in zip(rows, codes, strict=True):
            into[row][:] = plan[plan < model.config.num_codes]
        progress(len(rows))
    return into


def _codes(model: DiscoDVT, tokens: Tokens) -> Rows:
    """How many codes each story has [N]."""
    return -(-tokens.story_lengths // model.config.tokens_per_code)


def create_plans(path: Path, model: DiscoDVT, splits: Mapping[str, Tokens]) -> dict[str, Ragged]:
    """Room for the plans of splits, in one safetensors file that is filled in place."""
    shapes: dict[str, tuple[str, int]] = {}
    for split, tokens in splits.items():
        shapes[f"{split}.offsets"] = ("int64", len(tokens) + 1)
        shapes[f"{split}.values"] = ("int32", int(_codes(model, tokens).sum()))
    arrays = create_arrays(path, shapes)
    for split, tokens in splits.items():
        np.cumsum(_codes(model, tokens), out=arrays[f"{split}.offsets"][1:])
    return {split: Ragged(arrays[f"{split}.values"], arrays[f"{split}.offsets"]) for split in splits}


def load_plans(path: Path) -> dict[str, Ragged]:
    """Plans by split, mapped."""
    arrays = map_arrays(path)
    splits = sorted({name.partition(".")[0] for name in arrays})
    return {split: Ragged(arrays[f"{split}.values"], arrays[f"{split}.offsets"]) for split in splits}
