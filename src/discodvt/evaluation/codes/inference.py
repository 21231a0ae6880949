"""The models a study of codes opens, and what they make of stories: losses, latents of EDU pairs, losses of plans.

A study opens a DiscoDVT, its prior, a plain BART beside it. Everything is done in batches of stories of one length and
returned story by story, for intervals over stories.
"""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from discodvt.artefacts import MANIFEST, file_hash
from discodvt.checkpoints import Checkpoint, best_device
from discodvt.corpus import ANNOTATED_SCHEMA, read_rows, split_files
from discodvt.data.batches import Rows, collate, in_order, length_keys, padded
from discodvt.data.tokens import Ints as Subwords
from discodvt.data.tokens import Ragged, Tokens, read_tokens
from discodvt.discourse.labels import LABELS, UNKNOWN
from discodvt.errors import BadRequest
from discodvt.evaluation.metric import Floats, Ints
from discodvt.executors import Executor, run_shards
from discodvt.model import DiscoDVT
from discodvt.model.backbones import Prompt, load_language_model
from discodvt.model.prior import Prior, load_prior
from discodvt.stored_files import read_settings
from discodvt.stored_weights import TRAINED, WHOLE
from discodvt.training.stages.prior import PlanFeed, read_plans
from discodvt.training.validation import on_device

STORIES_PER_BATCH = 32
STORIES_PER_SHARD = 16 * STORIES_PER_BATCH


@dataclass(frozen=True, slots=True)
class Planner:
    """A DiscoDVT with its tokenizer, and how much of a prompt and of a story it was trained to read."""

    name: str
    model: DiscoDVT
    tokenizer: PreTrainedTokenizerBase
    prompt_tokens: int
    story_tokens: int
    device: torch.device

    @property
    def shape(self) -> dict[str, Any]:
        """What a reader of the figures wants to know of it."""
        config = self.model.config
        return {
            "name": self.name,
            "conv_layers": config.conv_layers,
            "tokens_per_code": config.tokens_per_code,
            "codes": config.num_codes,
            "bottleneck": config.bottleneck,
            "parameters": self.model.num_parameters(),
            "prompt_tokens": self.prompt_tokens,
            "story_tokens": self.story_tokens,
        }


def open_planner(source: Path, *, prompt_tokens: int | None = None, story_tokens: int | None = None) -> Planner:
    """Open a checkpoint; lengths not given are those of its training, else those kept with it."""
    device, checkpoint = best_device(), Checkpoint.open(source)
    model = checkpoint.load(DiscoDVT, device=device)
    data, kept = trained_with(source).get("data", {}), checkpoint.lengths

    prompt_tokens = prompt_tokens or data.get("prompt_tokens") or kept.prompt_tokens
    story_tokens = story_tokens or data.get("story_tokens") or kept.max_tokens
    problem = kept.problem(prompt_tokens, story_tokens)
    if problem:
        names = ("prompt_tokens", "story_tokens")
        raise BadRequest(f"{source}: `prompt_tokens` and `story_tokens` {problem}", parameter=names)
    return Planner(
        source.name,
        model,
        checkpoint.tokenizer(),
        device=device,
        prompt_tokens=prompt_tokens,
        story_tokens=story_tokens,
    )


def open_plain(source: Path, beside: Planner) -> PreTrainedModel:
    """A plain language model whose losses are compared token by token, so its subwords must be the same."""
    same_subwords(source, beside)
    plain: PreTrainedModel = load_language_model(Checkpoint.open(source), device=beside.device)
    return plain


def open_prior(source: Path, beside: Planner) -> Prior:
    prior = load_prior(Checkpoint.open(source), device=beside.device)
    if prior.config.num_codes != beside.model.config.num_codes:
        raise BadRequest(
            f"{source}: a prior over {prior.config.num_codes} codes, {beside.name} has {beside.model.config.num_codes}"
        )
    return prior


def same_subwords(source: Path, beside: Planner) -> None:
    """Refuse a checkpoint that cuts stories into other subwords: neither losses nor pairs would be comparable."""
    if Checkpoint.open(source).tokenizer().get_vocab() != beside.tokenizer.get_vocab():
        raise BadRequest(f"{source}: its subwords are not those of {beside.name}; compare models of one tokenizer")


def trained_with(source: Path) -> dict[str, Any]:
    """The recipe a training run was made with, or nothing where there is no run around the checkpoint."""
    return dict(read_settings(source / MANIFEST).get("config", {}))


def trained_on(source: Path, file: Path) -> bool:
    """Whether a training run read this very file."""
    return file_hash(file) in read_settings(source / MANIFEST).get("inputs", {}).values()


def check_prior(prior: Path, checkpoint: Path) -> None:
    """Refuse a prior that lies beside another DiscoDVT: it learned that one's plans, whose codes mean other things."""
    beside = prior.resolve().parent / WHOLE
    own = file_hash(weights_of(checkpoint))
    learned_from = (
        read_settings(beside.parent / MANIFEST).get("inputs", {}).values()
    )  # a part, where the model beside it is whole
    if beside.is_file() and own != file_hash(beside) and own not in learned_from:
        raise BadRequest(
            f"{prior}: learned the plans of {beside.parent.name}, another model than {checkpoint}; give its own prior"
        )


def weights_of(source: Path) -> Path:
    """The file that stands for a checkpoint in a manifest."""
    directory = Checkpoint.open(source).directory
    path = next((directory / name for name in (WHOLE, TRAINED) if (directory / name).is_file()), None)
    if path is None:
        raise BadRequest(f"{source}: no {WHOLE}; give the directory of a trained model")
    return path


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
        symbols=planner.model.symbols,
        prompt_tokens=planner.prompt_tokens,
        story_tokens=planner.story_tokens,
        with_relations=True,
        limit=limit,
    )


def plans_of(planner: Planner, tokens: Tokens) -> Ragged:
    """The argmax codes of every story."""
    return read_plans(planner.model, tokens, device=planner.device, stories_per_batch=STORIES_PER_BATCH)


def plans_in_shards(executor: Executor, source: Path, tokens: Tokens) -> Ragged:
    """The same from workers that open the planner themselves. Shards are runs of stories by length, so that every
    batch is the one it is in `plans_of`."""
    order = in_order(tokens.story_lengths, STORIES_PER_SHARD)
    shards = ((number, [tokens.stories[row] for row in rows]) for number, rows in enumerate(order))
    plans: list[Subwords] = [np.empty(0, dtype=np.int32)] * len(tokens)
    work = partial(_plan_shard, source.absolute())
    for (number, _), found in run_shards(executor, work, shards, name=_stories_of, kept=False):
        for row, plan in zip(order[number], found, strict=True):
            plans[row] = plan
    return Ragged.of(plans)


def _stories_of(shard: tuple[int, list[Subwords]]) -> str:
    first = shard[0] * STORIES_PER_SHARD
    return f"stories {first:,} to {first + len(shard[1]) - 1:,} by length"


def _plan_shard(source: Path, shard: tuple[int, list[Subwords]]) -> list[Subwords]:
    stories, planner = Ragged.of(shard[1]), _planner(source)
    plans = plans_of(planner, Tokens(prompts=stories, stories=stories, edus=stories, relations=stories))
    return [plans[row] for row in range(len(plans))]


@cache
def _planner(source: Path) -> Planner:
    """One planner a process."""
    return open_planner(source)


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
    planner: DiscoDVT, tokens: Tokens, plans: Ragged | None, *, plain: PreTrainedModel | None = None
) -> Floats:
    """-log p of each story [N] under its plan, or under a plain language model beside the planner (equation 4)."""
    losses = np.zeros(len(tokens))
    device, backbone = planner.device, planner.backbone
    generator = planner.generator if plain is None else plain
    for rows in in_order(length_keys(tokens.story_lengths, tokens.prompts.lengths), STORIES_PER_BATCH):
        batch = on_device(collate(tokens, rows, pad=planner.symbols.pad), device)
        prompt, story = Prompt(batch["prompt_ids"], batch["prompt_mask"]), batch["story_ids"]
        latent = None if plans is None else _latent(planner, plans, rows, length=story.shape[1], device=device)
        outputs = backbone.decode(generator, prompt, story, latent, use_cache=False)
        for row, states, labels in zip(rows, outputs.last_hidden_state, batch["labels"], strict=True):
            losses[row] = backbone.summed_loss(generator, states, labels)
    return losses


@torch.no_grad()
def marker_pairs(planner: Planner, tokens: Tokens, plans: Ragged) -> EduPairs:
    """The pairs joined by a marker, in the latents of the plans; pairs labelled `unknown` are left out."""
    model, unknown = planner.model, LABELS.index(UNKNOWN)
    found: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    for rows in in_order(tokens.story_lengths, STORIES_PER_BATCH):
        batch = on_device(collate(tokens, rows, pad=model.symbols.pad), planner.device)
        latent = _latent(model, plans, rows, length=batch["story_ids"].shape[1], device=planner.device)
        means = (batch["pooling"] @ latent).cpu()  # [B, S, D]
        joined = batch["relations"].cpu() < unknown
        story, left = batch["pairs"].cpu()[joined].unbind(-1)
        labels = batch["relations"].cpu()[joined]
        found.append((means[story, left], means[story, left + 1], labels, torch.from_numpy(rows)[story]))
    left, right, labels, story = (torch.cat(parts) for parts in zip(*found, strict=True))
    return EduPairs(left, right, labels, story.numpy())


@torch.no_grad()
def prior_losses(prior: Prior, tokens: Tokens, plans: Ragged, *, device: torch.device) -> tuple[Floats, Floats]:
    """-log p of the codes of each plan [N], ends not counted: over codes alone, over codes and the end."""
    config = prior.config
    if plans.lengths.max() > config.max_codes:
        raise BadRequest(f"plans of {plans.lengths.max()} codes; the prior has {config.max_codes} places")
    ids = {"bos": config.bos_token_id, "eos": config.eos_token_id, "pad": config.pad_token_id}
    feed = PlanFeed(tokens.prompts, plans, text_pad=config.text_pad_token_id, **ids)
    codes_only, with_end = np.zeros(len(plans)), np.zeros(len(plans))
    for rows in in_order(feed.sort_keys, STORIES_PER_BATCH):
        batch = on_device(feed.batch(rows, step=None), device)
        logits = prior(
            batch["prompt_ids"], batch["prompt_mask"], decoder_input_ids=batch["plan_ids"], use_cache=False
        ).logits.float()  # [B, L + 1, K + 3]
        labels = batch["labels"]
        counted = (labels >= 0) & (labels < config.num_codes)
        chosen = logits.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        for losses, scores in ((codes_only, logits[..., : config.num_codes]), (with_end, logits)):
            nats = (scores.logsumexp(-1) - chosen).where(counted, torch.zeros(()))
            losses[rows] = nats.sum(-1).double().cpu().numpy()
    return codes_only, with_end


def _latent(model: DiscoDVT, plans: Ragged, rows: Rows, *, length: int, device: torch.device) -> Tensor:
    """h^z [B, length, D] of some stories' plans."""
    codes, _ = padded([plans[row] for row in rows], model.config.padding_code)
    return model.latent(codes.to(device), length)
