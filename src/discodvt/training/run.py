"""One run of one stage in one directory: everything is put together here, trained, and left in order.

The directory is a stage directory (`discodvt.artefacts`): `last-STEP/` to resume from, `best-STEP/`, `metrics.jsonl`,
`tensorboard/`, and at the end the best model itself with its card, `training.png` and the manifest. The `prior` stage
leaves a whole writer: the DiscoDVT it was trained on, and `prior/`. In a store the directory is a mirror of a local one
(`discodvt.mirrored`), to which every `last-STEP/` is put when it is there.
"""

import os
import shutil
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from discodvt.artefacts import MANIFEST, REQUEST, open_stage
from discodvt.checkpoints import quiet_libraries
from discodvt.config import LoopSettings
from discodvt.errors import BadRequest, WorkFailed
from discodvt.mirrored import Mirror, mirrored, workplace
from discodvt.resumable import read_json
from discodvt.storage import RemotePath
from discodvt.stored_weights import writing_weights
from discodvt.training.assembly import TOKENS, Progress, Recipe, Site, silent
from discodvt.training.loop import Event, Loop, RunProgress
from discodvt.training.outputs import METRICS, TENSORBOARD, Checkpoints, Journal, plot
from discodvt.training.sharding import open_accelerator
from discodvt.training.stages import Stage

MAY_CHANGE = (  # sections and keys in which a resumed run may differ from what it was started with
    "optimizer",
    "run",
    "watchdog",
    "writing",
    "card",
    "validation.every_steps",
    "validation.stories_per_batch",
    "validation.bleu_stories",
    "word_dropout",
    "relaxation",
    "loss.entropy",
    "loss.batch_entropy",
    "loss.position_entropy",
)


def train(
    recipe: Recipe,
    directory: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    changes: Sequence[str] = (),
    progress: Progress = silent,
) -> Generator[Event]:
    """Train the recipe's stage into `directory`; what happens is yielded as it happens.

    `changes` names keys in which a resumed run differs from its request so far, such as `optimizer.learning_rate`.
    `progress` is told how far tokens and plans are, which are made before the first step.
    """
    fixed = [key for key in changes if not {key, key.partition(".")[0]} & set(MAY_CHANGE)]
    if fixed:
        raise BadRequest(
            f"`change` {fixed[0]}: fixed when a run starts; what may change is {', '.join(MAY_CHANGE)}",
            parameter="change",
        )
    if changes and not resume:
        raise BadRequest("`change` is for a run that is resumed; use `set_`", parameter=("change", "set_"))
    return run_stage(
        "train",
        directory,
        recipe,
        assemble=recipe.assemble,
        config=recipe.as_dict(),
        inputs=recipe.inputs(),
        resume=resume,
        overwrite=overwrite,
        may_change=changes,
        progress=progress,
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
    may_change: Collection[str] = (),
    progress: Progress = silent,
) -> Generator[Event]:
    """Train the stage that `assemble` makes; `config`, `inputs` and `may_change` are the request of `open_stage`."""
    quiet_libraries()
    accelerator = open_accelerator(settings.run)
    _check_processes(settings, accelerator)
    with ExitStack() as stack:
        target, mirror = directory, None
        if isinstance(target, RemotePath):
            directory, mirror = _work_here(target, accelerator, stack, whole=not overwrite)
        checkpoints = Checkpoints(directory)
        done = not overwrite and _is_done(checkpoints, resume)
        leftover = not resume and not done and _killed_at_start(directory, name)
        accelerator.wait_for_everyone()  # every process has looked at the directory before the first one changes it
        opened = journal = None
        if accelerator.is_main_process:
            request = open_stage(
                directory, name, config=config, inputs=inputs, overwrite=overwrite or leftover, may_change=may_change
            )
            opened = stack.enter_context(request)
            checkpoints.return_to_last()
            if done:
                yield Event("note", 0, 0, {}, f"{target}: complete already, nothing to resume")
        if done:
            return
        accelerator.wait_for_everyone()
        sent = checkpoints.newest("last")
        started = sent is not None
        try:
            site = Site(directory, accelerator, checkpoints.newest("last"), progress)
            site.on_first(checkpoints.join_last)
            stage = assemble(site)
            reached = RunProgress(**(checkpoints.progress() or {}))
            if opened is not None:
                changes = opened.request.get("changes", [])[len(reached.changes) :]
                reached.changes += [change | {"step": reached.step} for change in changes]
                journal = Journal(directory, step=reached.step, tensorboard=settings.run.tensorboard)
                for note in stage.notes:
                    yield Event("note", reached.step, stage.total, {}, note)
            for event in Loop(stage, settings, accelerator, checkpoints, reached, journal).run():
                started = started or event.kind == "step"
                if mirror is not None and checkpoints.newest("last") not in (None, sent):
                    sent = checkpoints.newest("last")
                    mirror.send()
                if opened is not None:
                    yield event
        except BaseException as error:
            if opened is not None and not started:  # nothing in it is worth resuming
                if journal is not None:
                    journal.close()
                opened.abandon()
            if _out_of_memory(error):
                raise WorkFailed(
                    "out of memory; set batch.stories_per_micro_batch lower, run.gradient_checkpointing=true (also "
                    "with `resume` `change`), or the sizes of a new model lower",
                    parameter=("resume", "change"),
                ) from None
            raise
        if opened is not None and journal is not None:
            journal.close()
            best = _leave_in_order(directory, stage, checkpoints, reached)
            shutil.rmtree(directory / TOKENS, ignore_errors=True)
            opened.finish(
                steps=reached.step,
                tokens=reached.tokens,
                best_step=reached.best_step,
                validation=best["figures"],
                alarms=reached.alarms,
                without_gradient=reached.unreached,
                **stage.facts,
            )
            checkpoints.drop_best()
            if mirror is not None:
                mirror.finish()
            yield Event("note", reached.step, stage.total, best["figures"], f"{target}: done")
        accelerator.wait_for_everyone()


def _work_here(
    target: RemotePath, accelerator: Accelerator, stack: ExitStack, *, whole: bool
) -> tuple[Path, Mirror | None]:
    """The directory of this machine in which output of a store is made; the first process has the mirror."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", accelerator.num_processes))
    if here != accelerator.num_processes:
        raise BadRequest(f"{target}: processes of several nodes write into one directory; give one that all nodes see")
    opened: list[Mirror] = []

    def fetch() -> None:
        opened.append(
            stack.enter_context(mirrored(target, whole=whole, without=(TOKENS,), growing=(METRICS, TENSORBOARD)))
        )

    Site(workplace(target), accelerator, last=None).on_first(fetch)
    return workplace(target), opened[0] if opened else None


def _is_done(checkpoints: Checkpoints, resume: bool) -> bool:
    """Whether the run is complete; a run that is there without `resume` is refused, with the way on."""
    directory = checkpoints.directory
    if (directory / MANIFEST).exists():
        if resume:
            return True
        raise BadRequest(
            f"{directory}: holds a finished run; choose another directory, or `overwrite` it", parameter="overwrite"
        )
    if not resume and (checkpoints.newest("last") or checkpoints.newest("best")):
        raise BadRequest(
            f"{directory}: holds an unfinished run; go on with `resume`, or start over with `overwrite`",
            parameter=("resume", "overwrite"),
        )
    return False


def _killed_at_start(directory: Path, name: str) -> bool:
    """Whether an earlier run of this kind came to no checkpoint, so that there is nothing to resume."""
    request = directory / REQUEST
    return request.exists() and read_json(request).get("stage") == name


def _leave_in_order(directory: Path, stage: Stage, checkpoints: Checkpoints, reached: RunProgress) -> dict[str, Any]:
    """The best model in its place, and the plots; returns where the run stood when it was saved."""
    best = checkpoints.progress("best") or vars(reached)
    checkpoints.publish_best(directory / stage.inside)
    if stage.around is not None:
        with writing_weights(directory):
            stage.around.save_pretrained(directory)
        stage.describe(directory, best)
    plot(directory)
    return best


def _out_of_memory(error: BaseException) -> bool:
    """For tensors: of a device, or of this machine, for which PyTorch has no class."""
    said = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return said or isinstance(error, torch.OutOfMemoryError)


def _check_processes(settings: LoopSettings, accelerator: Accelerator) -> None:
    """A step must divide evenly over processes."""
    stories, size = settings.batch.stories_per_step, settings.batch.stories_per_micro_batch
    micro_batches, processes = stories // size, accelerator.num_processes
    if micro_batches % processes:
        divisors = [str(number) for number in range(1, micro_batches + 1) if micro_batches % number == 0]
        smaller = [number for number in range(size - 1, 0, -1) if stories % (number * processes) == 0]
        other = f", or set batch.stories_per_micro_batch={smaller[0]}" if smaller else ""
        raise BadRequest(
            f"batch: the {micro_batches} micro-batches of a step cannot be shared by {processes} processes; "
            f"use {' or '.join(divisors)}{other}"
        )
