"""One recipe, one stage, one directory: everything is put together here, trained, and left in order.

The directory is a stage directory (`discodvt.artefacts`): `last-STEP/` to resume from, `best-STEP/`, `metrics.jsonl`,
`tensorboard/`, and at the end the best model itself with its card, `training.png` and the manifest. The `prior` stage
leaves a whole writer: the DiscoDVT it was trained on, and `prior/`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import ceil
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, DistributedType

from discodvt.artefacts import MANIFEST, REQUEST, open_stage
from discodvt.checkpoints import quiet_libraries
from discodvt.config import Recipe
from discodvt.corpus import split_files
from discodvt.data.batches import Order
from discodvt.errors import BadRequest
from discodvt.training.assembly import Parts, assemble
from discodvt.training.card import write_card
from discodvt.training.checkpoints import Checkpoints
from discodvt.training.journal import Journal, plot
from discodvt.training.loop import Event, Loop, Progress
from discodvt.training.schedules import RelaxationSchedule
from discodvt.training.validation import bleu_1
from discodvt.training.watchdog import Figures, Watchdog


def train(recipe: Recipe, directory: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[Event]:
    """Train the recipe's stage into `directory`; what happens is yielded as it happens."""
    done = not overwrite and _is_done(directory, resume)
    quiet_libraries()
    accelerator = Accelerator(
        mixed_precision="bf16" if _bf16(recipe) else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    _check_processes(recipe, accelerator)
    accelerator.wait_for_everyone()  # every process has looked at the directory before the first one changes it
    with ExitStack() as stack:
        opened = None
        if accelerator.is_main_process:
            request = open_stage(
                directory, "train", config=recipe.as_dict(), inputs=_inputs(recipe), overwrite=overwrite
            )
            opened = stack.enter_context(request)
            if done:
                yield Event("note", 0, 0, {}, f"{directory}: complete already, nothing to resume")
        if done:
            return
        accelerator.wait_for_everyone()
        try:
            parts, loop = _prepare(recipe, directory, accelerator)
        except BadRequest:
            if opened is not None and not any(directory.glob("last-*")):
                opened.abandon()
            raise
        for event in loop.run():
            if accelerator.is_main_process:
                yield event
        if opened is not None:
            progress, best = loop.progress, _leave_in_order(directory, parts, loop)
            opened.finish(
                steps=progress.step,
                tokens=progress.tokens,
                best_step=progress.best_step,
                validation=best["figures"],
                alarms=progress.alarms,
                frozen=parts.frozen,
                without_gradient=progress.unreached,
            )
            loop.checkpoints.drop_best()
            yield Event("note", progress.step, loop.total, best["figures"], f"{directory}: done")
        accelerator.wait_for_everyone()


def _is_done(directory: Path, resume: bool) -> bool:
    """Whether the run is complete; a run that is there without `--resume` is refused, with the way on."""
    if (directory / MANIFEST).exists():
        if resume:
            return True
        raise BadRequest(f"{directory}: holds a finished run; choose another directory, or --overwrite it")
    if (directory / REQUEST).exists() and not resume:
        raise BadRequest(f"{directory}: holds an unfinished run; go on with --resume, or start over with --overwrite")
    return False


def _inputs(recipe: Recipe) -> list[Path]:
    """The files a run is made of: its stories, and the weights it starts from where they are at hand."""
    stories = [path for split, path in split_files(recipe.data.corpus).items() if split != "test"]
    sources = [source for source in (recipe.model.init, recipe.model.prior_encoder) if source is not None]
    weights = [Path(source) / "model.safetensors" for source in sources]
    return stories + [path for path in weights if path.is_file()]


def _prepare(recipe: Recipe, directory: Path, accelerator: Accelerator) -> tuple[Parts, Loop]:
    """The loop of a new run, or of one that goes on where its last checkpoint stands."""
    checkpoints = Checkpoints(directory, describe=lambda target, progress: describe(target, progress))
    last = checkpoints.newest("last")
    progress = Progress(**(checkpoints.progress() or {}))
    parts = assemble(recipe, directory, last=last, accelerator=accelerator)
    batch = recipe.batch
    order = Order(parts.train.sort_keys, batch.stories_per_step, batch.stories_per_micro_batch, recipe.seed)
    total = recipe.run.steps or ceil((recipe.run.epochs or 0) * order.steps_per_epoch)

    def describe(target: Path, state: dict[str, Any]) -> None:
        parts.tokenizer.save_pretrained(target)
        size = sum(parameter.numel() for parameter in parts.stage.parameters())
        write_card(target, recipe, state, total=total, parameters=size, frozen=parts.frozen)

    loop = Loop(
        stage=parts.stage,
        train_feed=parts.train,
        valid_feed=parts.valid,
        order=order,
        total=total,
        relaxation=RelaxationSchedule.over(total, recipe.relaxation, recipe.word_dropout),
        recipe=recipe,
        accelerator=accelerator,
        checkpoints=checkpoints,
        watchdog=Watchdog(
            min_code_perplexity=recipe.watchdog.min_code_perplexity,
            min_swap_gap=recipe.watchdog.min_swap_gap,
            grace_steps=round(recipe.watchdog.grace * total),
            restartable=getattr(getattr(parts.stage.model, "bottleneck", None), "restartable", False),
        ),
        progress=progress,
        journal=_journal(recipe, directory, progress.step) if accelerator.is_main_process else None,
        measure=_measure(recipe, parts, accelerator) if recipe.validation.select_by == "bleu-1" else None,
    )
    return parts, loop


def _journal(recipe: Recipe, directory: Path, step: int) -> Journal:
    return Journal(directory, step=step, tensorboard=recipe.run.tensorboard)


def _measure(recipe: Recipe, parts: Parts, accelerator: Accelerator) -> Callable[[Any], Figures]:
    """BLEU-1 of stories written under the plans of real ones, for the choice of the best checkpoint."""
    settings = recipe.validation

    def measure(model: Any) -> Figures:
        score = bleu_1(
            model,
            parts.valid,
            parts.tokenizer,
            stories=settings.bleu_stories,
            stories_per_batch=settings.stories_per_batch,
            device=accelerator.device,
            seed=recipe.seed,
        )
        return {"bleu_1": score}

    return measure


def _leave_in_order(directory: Path, parts: Parts, loop: Loop) -> dict[str, Any]:
    """The best model in its place, and the plots; returns where the run stood when it was saved."""
    best = loop.checkpoints.progress("best") or vars(loop.progress)
    if loop.journal is not None:
        loop.journal.close()
    if parts.planner is None:
        loop.checkpoints.publish_best(directory)
    else:
        loop.checkpoints.publish_best(directory / "prior")
        parts.planner.save_pretrained(directory)
        loop.checkpoints.describe(directory, best)
    plot(directory)
    return best


def _bf16(recipe: Recipe) -> bool:
    if recipe.run.precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return recipe.run.precision == "bf16"


def _check_processes(recipe: Recipe, accelerator: Accelerator) -> None:
    """A step must divide evenly over processes; some options cannot look into sharded weights."""
    micro_batches = recipe.batch.stories_per_step // recipe.batch.stories_per_micro_batch
    if micro_batches % accelerator.num_processes:
        raise BadRequest(
            f"batch: {micro_batches} micro-batches a step cannot be shared by {accelerator.num_processes} processes; "
            "set batch.stories_per_micro_batch lower"
        )
    if accelerator.distributed_type == DistributedType.FSDP:
        if recipe.watchdog.restart_dead_codes:
            raise BadRequest("watchdog.restart_dead_codes: not with sharded weights (FSDP); switch it off")
        if recipe.validation.select_by == "bleu-1":
            raise BadRequest("validation.select_by: bleu-1 cannot be measured with sharded weights (FSDP); use loss")
