"""What a model makes of stories: their losses under a plan, the latents of their EDU pairs, their plans' losses.

Everything is done in batches of stories of one length and returned story by story, for intervals over stories.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import BartForConditionalGeneration

from discodvt.corpus import ANNOTATED_SCHEMA, read_rows, split_files
from discodvt.data.batches import Rows, collate, in_order, length_keys, padded
from discodvt.data.tokens import Ragged, Tokens, read_tokens
from discodvt.discourse.labels import LABELS, UNKNOWN
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.checkpoints import Planner
from discodvt.evaluation.metric import Floats, Ints
from discodvt.model import DiscoDVT, PlanPrior
from discodvt.training import objectives
from discodvt.training.feeds import PlanFeed
from discodvt.training.plans import read_plans
from discodvt.training.validation import on_device

STORIES_PER_BATCH = 32


@dataclass(frozen=True, slots=True)
class EduPairs:
    """Neighbouring EDUs joined by a marker: the mean latents of both, the marker's label, and whose they are."""

    left: Tensor  # [P, D]
    right: Tensor  # [P, D]
    labels: Tensor  # [P] 0 to 19
    story: Ints  # [P]


def annotated_split(corpus: Path, split: str) -> Path:
    """The file of a split that has annotations."""
    files = split_files(corpus)
    if split not in files:
        raise BadRequest(f"{corpus}: no split {split}; it has {', '.join(files)}")
    try:
        next(read_rows(files[split], ANNOTATED_SCHEMA, take=1), None)
    except BadRequest as error:
        raise BadRequest(f"{error}; codes are studied on annotated stories: run `discodvt annotate` first") from None
    return files[split]


def tokens_of(planner: Planner, path: Path, *, limit: int | None) -> Tokens:
    """The stories of a split as the planner reads them."""
    return read_tokens(
        path,
        planner.tokenizer,
        prompt_tokens=planner.prompt_tokens,
        story_tokens=planner.story_tokens,
        with_relations=True,
        limit=limit,
    )


def plans_of(planner: Planner, tokens: Tokens) -> Ragged:
    """The argmax codes of every story."""
    return read_plans(planner.model, tokens, device=planner.device, stories_per_batch=STORIES_PER_BATCH)


def exchanged(plans: Ragged, lengths: Rows) -> Ragged:
    """Every story with the plan of another of nearly its length: neighbours by length change plans."""
    order = np.argsort(lengths, kind="stable")
    partner = np.arange(len(order)) ^ 1
    if len(order) % 2:
        partner[-1] = max(0, len(order) - 2)  # the odd one out takes its neighbour's
    source = np.empty_like(order)
    source[order] = order[partner]
    return Ragged.of(plans[row] for row in source)


@torch.no_grad()
def story_losses(
    model: DiscoDVT | BartForConditionalGeneration, tokens: Tokens, plans: Ragged | None, *, device: torch.device
) -> Floats:
    """-log p of each story [N] under its plan, or of a plain BART without any (equation 4)."""
    losses = np.zeros(len(tokens))
    pad = model.config.pad_token_id or 0
    for rows in in_order(length_keys(tokens.story_lengths, tokens.prompts.lengths), STORIES_PER_BATCH):
        batch = on_device(collate(tokens, rows, pad=pad), device)
        prompt, story = (batch["prompt_ids"], batch["prompt_mask"]), batch["story_ids"]
        if isinstance(model, DiscoDVT):
            assert plans is not None
            bart = model.generator
            latent = _latent(model, plans, rows, length=story.shape[1], device=device)
            outputs = model.decode(*prompt, story, latent, use_cache=False)
        else:
            bart = model
            outputs = bart.model(*prompt, decoder_input_ids=story, use_cache=False)
        for row, states, labels in zip(rows, outputs.last_hidden_state, batch["labels"], strict=True):
            losses[row] = objectives.reconstruction(states, labels, bart)
    return losses


@torch.no_grad()
def marker_pairs(planner: Planner, tokens: Tokens, plans: Ragged) -> EduPairs:
    """The pairs joined by a marker, in the latents of the plans; pairs labelled `unknown` are left out."""
    model, unknown = planner.model, LABELS.index(UNKNOWN)
    found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for rows in in_order(tokens.story_lengths, STORIES_PER_BATCH):
        batch = on_device(collate(tokens, rows, pad=model.config.pad_token_id or 0), planner.device)
        latent = _latent(model, plans, rows, length=batch["story_ids"].shape[1], device=planner.device)
        means = (batch["pooling"] @ latent).cpu()  # [B, S, D]
        joined = batch["relations"].cpu() < unknown
        story, left = batch["pairs"].cpu()[joined].unbind(-1)
        labels = batch["relations"].cpu()[joined]
        found.append((means[story, left], means[story, left + 1], labels, torch.from_numpy(rows)[story]))
    left, right, labels, story = (torch.cat(parts) for parts in zip(*found, strict=True))
    return EduPairs(left, right, labels, story.numpy())


@torch.no_grad()
def prior_losses(prior: PlanPrior, tokens: Tokens, plans: Ragged, *, device: torch.device) -> tuple[Floats, Floats]:
    """-log p of the codes of each plan [N], ends not counted: among codes alone, and with the end as a rival."""
    config = prior.config
    if plans.lengths.max() > config.max_position_embeddings - 1:
        raise BadRequest(f"plans of {plans.lengths.max()} codes; the prior has {config.max_position_embeddings} places")
    ids = {"bos": config.bos_token_id, "eos": config.eos_token_id, "pad": config.pad_token_id}
    feed = PlanFeed(tokens.prompts, plans, text_pad=config.text_pad_token_id, **ids)
    alone, rivalled = np.zeros(len(plans)), np.zeros(len(plans))
    for rows in in_order(feed.sort_keys, STORIES_PER_BATCH):
        batch = on_device(feed.batch(rows, step=None, noisy=False), device)
        logits = prior(
            batch["prompt_ids"], batch["prompt_mask"], decoder_input_ids=batch["plan_ids"], use_cache=False
        ).logits.float()  # [B, L + 1, K + 3]
        labels = batch["labels"]
        counted = (labels >= 0) & (labels < config.num_codes)
        chosen = logits.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        for losses, scores in ((alone, logits[..., : config.num_codes]), (rivalled, logits)):
            nats = (scores.logsumexp(-1) - chosen).where(counted, torch.zeros(()))
            losses[rows] = nats.sum(-1).double().cpu().numpy()
    return alone, rivalled


def _latent(model: DiscoDVT, plans: Ragged, rows: Rows, *, length: int, device: torch.device) -> Tensor:
    """h^z [B, length, D] of some stories' plans."""
    codes, _ = padded([plans[row] for row in rows], model.config.padding_code)
    return model.latent(codes.to(device), length)
