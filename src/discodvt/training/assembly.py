"""The parts of a stage, put together from its recipe: tokenizer, tokens, model, and what is fed to it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import BartForConditionalGeneration, PreTrainedModel, PreTrainedTokenizerBase

from discodvt.checkpoints import Checkpoint, open_tokenizer
from discodvt.config import Recipe
from discodvt.corpus import read_examples, split_files
from discodvt.data.corruption import Denoiser
from discodvt.data.subwords import adding_a_space, train_tokenizer
from discodvt.data.tokens import Tokens, read_tokens
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, PlanPrior
from discodvt.training.feeds import DenoisingFeed, Feed, PlanFeed, StoryFeed
from discodvt.training.plans import load_plans, read_plans, save_plans
from discodvt.training.stages import Plan, Prior, Stage, Text
from discodvt.training.weights import bart_model, checkpoint_of, plan_model, prior_model, trained_model

WITHOUT_PROMPTS = ("pretrain", "warm-start")
PLANS = "plans.safetensors"


@dataclass
class Parts:
    """What the loop needs of a stage, and the DiscoDVT whose plans a prior learns."""

    stage: Stage
    train: Feed
    valid: Feed
    tokenizer: PreTrainedTokenizerBase
    planner: DiscoDVT | None = None
    frozen: list[str] = field(default_factory=list)


def assemble(recipe: Recipe, directory: Path, *, last: Path | None, accelerator: Accelerator) -> Parts:
    """Parts of a new run, or of one resumed from the checkpoint `last`."""
    files = split_files(recipe.data.corpus)
    missing = [split for split in ("train", "valid") if split not in files]
    if missing:
        raise BadRequest(f"{recipe.data.corpus}: no {' and no '.join(missing)} split; training needs both")
    for source in (recipe.model.init, recipe.model.prior_encoder):
        if source is not None:
            checkpoint_of(source)
    tokenizer = _tokenizer(recipe, files["train"], last)
    if last is None and recipe.model.init is not None:
        _check_room(recipe, recipe.model.init)
    torch.manual_seed(recipe.seed)  # new weights are the seed's
    build = {"prior": _prior, "pretrain": _pretrain, "seq2seq": _seq2seq}.get(recipe.stage, _plan)
    splits = _tokens(recipe, files, tokenizer)
    parts = build(recipe, splits, tokenizer, directory, last, accelerator)
    _keep_lengths(recipe, parts)
    parts.frozen = parts.stage.freeze()
    if recipe.run.gradient_checkpointing:
        parts.stage.model.gradient_checkpointing_enable()
    return parts


def _tokenizer(recipe: Recipe, train_file: Path, last: Path | None) -> PreTrainedTokenizerBase:
    if last is not None or recipe.model.init is not None:
        return adding_a_space(Checkpoint.open(last or recipe.model.init).tokenizer())
    if recipe.tokenizer.source is not None:
        return adding_a_space(open_tokenizer(recipe.tokenizer.source))
    texts = (text for row in read_examples(train_file) for text in (row.prompt, row.story) if text)
    return train_tokenizer(texts, recipe.tokenizer.vocab_size or 0)


def _tokens(recipe: Recipe, files: dict[str, Path], tokenizer: PreTrainedTokenizerBase) -> dict[str, Tokens]:
    limits = {"train": recipe.data.max_train_stories, "valid": recipe.data.max_valid_stories}
    return {
        split: read_tokens(
            files[split],
            tokenizer,
            prompt_tokens=recipe.data.prompt_tokens,
            story_tokens=recipe.data.story_tokens,
            with_prompts=recipe.stage not in WITHOUT_PROMPTS,
            with_relations=recipe.stage == "reconstruct" and recipe.loss.relation > 0,
            limit=limit,
        )
        for split, limit in limits.items()
    }


def _pretrain(
    recipe: Recipe, splits: dict[str, Tokens], tokenizer: Any, directory: Path, last: Path | None, _: Accelerator
) -> Parts:
    model = _opened(BartForConditionalGeneration, last) or bart_model(recipe.model, tokenizer)
    settings = recipe.denoising
    denoiser = Denoiser.of(
        tokenizer,
        masked=settings.mask_ratio,
        mean_span=settings.mean_span,
        permute_sentences=settings.permute_sentences,
        longest=model.config.max_position_embeddings,
    )
    feeds = {
        split: DenoisingFeed(tokens, tokenizer.pad_token_id, recipe.seed, denoiser) for split, tokens in splits.items()
    }
    return Parts(Text(model), feeds["train"], feeds["valid"], tokenizer)


def _seq2seq(
    recipe: Recipe, splits: dict[str, Tokens], tokenizer: Any, directory: Path, last: Path | None, _: Accelerator
) -> Parts:
    model = _opened(BartForConditionalGeneration, last) or bart_model(recipe.model, tokenizer)
    feeds = {split: _story_feed(recipe, tokens, tokenizer, None) for split, tokens in splits.items()}
    return Parts(Text(model), feeds["train"], feeds["valid"], tokenizer)


def _plan(
    recipe: Recipe, splits: dict[str, Tokens], tokenizer: Any, directory: Path, last: Path | None, _: Accelerator
) -> Parts:
    model = _opened(DiscoDVT, last) or plan_model(recipe.model, tokenizer)
    if recipe.watchdog.restart_dead_codes and not model.bottleneck.restartable:
        raise BadRequest(
            f"watchdog.restart_dead_codes: {recipe.model.init} has codes ({model.config.bottleneck}) that have nothing "
            "to restart; switch it off"
        )
    noise_shape = (model.config.tokens_per_code, model.bottleneck.noise_width)
    feeds = {split: _story_feed(recipe, tokens, tokenizer, noise_shape) for split, tokens in splits.items()}
    relation = recipe.loss.relation if recipe.stage == "reconstruct" else 0.0
    loss = recipe.loss
    stage = Plan(
        model,
        entropy=loss.entropy,
        relation=relation,
        batch_entropy=loss.batch_entropy,
        position_entropy=loss.position_entropy,
        bag_of_words=loss.bag_of_words,
    )
    return Parts(stage, feeds["train"], feeds["valid"], tokenizer)


def _prior(
    recipe: Recipe,
    splits: dict[str, Tokens],
    tokenizer: Any,
    directory: Path,
    last: Path | None,
    accelerator: Accelerator,
) -> Parts:
    planner = trained_model(recipe.model)
    longest = -(-recipe.data.story_tokens // planner.config.tokens_per_code)
    if (recipe.writing.min_codes or 0) > longest:
        raise BadRequest(
            f"writing.min_codes: {recipe.writing.min_codes} is more than the {longest} codes of data.story_tokens; "
            "set it lower"
        )
    prior = _opened(PlanPrior, last) or prior_model(planner, recipe.model, max_codes=longest)
    path = directory / PLANS
    if accelerator.is_main_process and not path.exists():
        size = recipe.validation.stories_per_batch
        plans = {
            split: read_plans(planner, tokens, device=accelerator.device, stories_per_batch=size)
            for split, tokens in splits.items()
        }
        partial = path.with_suffix(".partial")
        save_plans(partial, plans)
        partial.replace(path)
    accelerator.wait_for_everyone()
    plans = load_plans(path)
    config = prior.config
    feeds = {
        split: PlanFeed(
            tokens.prompts,
            plans[split],
            text_pad=config.text_pad_token_id,
            bos=config.bos_token_id,
            eos=config.eos_token_id,
            pad=config.pad_token_id,
        )
        for split, tokens in splits.items()
    }
    return Parts(Prior(prior), feeds["train"], feeds["valid"], tokenizer, planner=planner)


def _story_feed(recipe: Recipe, tokens: Tokens, tokenizer: Any, noise_shape: tuple[int, int] | None) -> StoryFeed:
    return StoryFeed(
        tokens,
        pad=tokenizer.pad_token_id,
        mask=tokenizer.mask_token_id,
        seed=recipe.seed,
        noise_shape=noise_shape,
    )


def _opened(kind: type[PreTrainedModel], last: Path | None) -> Any:
    """The model of a checkpoint to resume from, if there is one."""
    if last is None:
        return None
    return Checkpoint.open(last).load(kind)


def _check_room(recipe: Recipe, source: str) -> None:
    """Refuse lengths a checkpoint cannot hold, before any work. A new shape fits its recipe."""
    positions = checkpoint_of(source).lengths.positions
    needed = max(recipe.data.story_tokens, recipe.data.prompt_tokens + 2)
    if needed > positions:
        raise BadRequest(
            f"data.story_tokens and data.prompt_tokens need {needed} positions, "
            f"the model has {positions}; set them lower"
        )


def _keep_lengths(recipe: Recipe, parts: Parts) -> None:
    """Put the lengths of training where a writer looks for them: into `generation_config.json`."""
    most = {"max_new_tokens": recipe.data.story_tokens, "max_length": None}  # not both
    prompt = {} if recipe.stage in WITHOUT_PROMPTS else {"prompt_tokens": recipe.data.prompt_tokens}
    least = {} if recipe.writing.min_tokens is None else {"min_new_tokens": recipe.writing.min_tokens}
    for name, value in (most | prompt | least).items():
        setattr((parts.planner or parts.stage.model).generation_config, name, value)
    if recipe.writing.min_codes is not None:
        parts.stage.model.generation_config.min_new_tokens = recipe.writing.min_codes
