"""One run of one stage in one directory: everything is put together here, trained, and left in order.

The directory is a stage directory (`discodvt.artefacts`): `last-STEP/` to resume from, `best-STEP/`, `metrics.jsonl`,
`tensorboard/`, and at the end the best model itself with its card, `training.png` and the manifest. The `prior` stage
leaves a whole writer: the DiscoDVT it was trained on, and `prior/`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from discodvt.artefacts import MANIFEST, REQUEST, open_stage
from discodvt.checkpoints import quiet_libraries
from discodvt.config import LoopSettings
from discodvt.errors import BadRequest
from discodvt.training.assembly import Recipe, Site
from discodvt.training.loop import Event, Loop, Progress
from discodvt.training.outputs import Checkpoints, Journal, plot
from discodvt.training.stages import Stage


def train(recipe: Recipe, directory: Path, *, resume: bool = False, overwrite: bool = False) -> Iterator[Event]:
    """Train the recipe's stage into `directory`; what happens is yielded as it happens."""
    return run_stage(
        "train",
        directory,
        recipe,
        assemble=recipe.assemble,
        config=recipe.as_dict(),
        inputs=recipe.inputs(),
        resume=resume,
        overwrite=overwrite,
    )


def run_stage(
    name: str,
    directory: Path,
    settings: LoopSettings,
    *,
    assemble: Callable[[Site], Stage],
    config: Mapping[str, Any],
    inputs: Sequence[Path],
    resume: bool = False,
    overwrite: bool = False,
) -> Iterator[Event]:
    """Train the stage that `assemble` makes; `config` and `inputs` are the request, as in `open_stage`."""
    done = not overwrite and _is_done(directory, resume)
    quiet_libraries()
    accelerator = Accelerator(
        mixed_precision="bf16" if _bf16(settings) else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(gradient_as_bucket_view=True)],
    )
    _check_processes(settings, accelerator)
    accelerator.wait_for_everyone()  # every process has looked at the directory before the first one changes it
    with ExitStack() as stack:
        opened = None
        if accelerator.is_main_process:
            opened = stack.enter_context(open_stage(directory, name, config=config, inputs=inputs, overwrite=overwrite))
            if done:
                yield Event("note", 0, 0, {}, f"{directory}: complete already, nothing to resume")
        if done:
            return
        accelerator.wait_for_everyone()
        checkpoints = Checkpoints(directory)
        try:
            stage = assemble(Site(directory, accelerator, last=checkpoints.newest("last")))
        except BadRequest:
            if opened is not None and not any(directory.glob("last-*")):
                opened.abandon()
            raise
        progress = Progress(**(checkpoints.progress() or {}))
        journal = None
        if accelerator.is_main_process:
            journal = Journal(directory, step=progress.step, tensorboard=settings.run.tensorboard)
        for event in Loop(stage, settings, accelerator, checkpoints, progress, journal).run():
            if accelerator.is_main_process:
                yield event
        if opened is not None and journal is not None:
            journal.close()
            best = _leave_in_order(directory, stage, checkpoints, progress)
            opened.finish(
                steps=progress.step,
                tokens=progress.tokens,
                best_step=progress.best_step,
                validation=best["figures"],
                alarms=progress.alarms,
                without_gradient=progress.unreached,
                **stage.facts,
            )
            checkpoints.drop_best()
            yield Event("note", progress.step, stage.total, best["figures"], f"{directory}: done")
        accelerator.wait_for_everyone()


def _is_done(directory: Path, resume: bool) -> bool:
    """Whether the run is complete; a run that is there without `resume` is refused, with the way on."""
    if (directory / MANIFEST).exists():
        if resume:
            return True
        raise BadRequest(f"{directory}: holds a finished run; choose another directory, or --overwrite it")
    if (directory / REQUEST).exists() and not resume:
        raise BadRequest(f"{directory}: holds an unfinished run; go on with --resume, or start over with --overwrite")
    return False


def _leave_in_order(directory: Path, stage: Stage, checkpoints: Checkpoints, progress: Progress) -> dict[str, Any]:
    """The best model in its place, and the plots; returns where the run stood when it was saved."""
    best = checkpoints.progress("best") or vars(progress)
    checkpoints.publish_best(directory / stage.inside)
    if stage.around is not None:
        stage.around.save_pretrained(directory)
        stage.describe(directory, best)
    plot(directory)
    return best


def _bf16(settings: LoopSettings) -> bool:
    if settings.run.precision == "auto":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return settings.run.precision == "bf16"


def _check_processes(settings: LoopSettings, accelerator: Accelerator) -> None:
    """A step must divide evenly over processes."""
    micro_batches = settings.batch.stories_per_step // settings.batch.stories_per_micro_batch
    if micro_batches % accelerator.num_processes:
        raise BadRequest(
            f"batch: {micro_batches} micro-batches a step cannot be shared by {accelerator.num_processes} processes; "
            "set batch.stories_per_micro_batch lower"
        )
