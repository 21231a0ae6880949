"""A grid of tiny trainings: a baseline twice, the model, and the model without one of its losses."""

from pathlib import Path

from discodvt.experiments import grid_run
from discodvt.training import run as training

SHORT = (
    '"run.steps" = 2, "validation.every_steps" = 2, "run.save_every_steps" = 1, "run.tensorboard" = false, '
    '"batch.stories_per_step" = 4, "batch.stories_per_micro_batch" = 4'
)
GRID = f"""
seeds = [1, 2]
main = "DiscoDVT"
[corpora.toy]
prepare = ["jsonl", "STORIES"]
prompts = 4
[evaluation]
resamples = 20
discourse = false
codes = false
[stages.pretrain]
recipe = "tiny/pretrain"
seed = 42
set = {{ {SHORT} }}
[stages.warm-start]
recipe = "tiny/warm-start"
set = {{ {SHORT}, "watchdog.grace" = 1.0 }}
[stages.reconstruct]
recipe = "tiny/reconstruct"
set = {{ {SHORT}, "validation.select_by" = "loss", "watchdog.grace" = 1.0 }}
[stages.prior]
recipe = "tiny/prior"
set = {{ {SHORT} }}
[stages.seq2seq]
recipe = "tiny/seq2seq"
set = {{ {SHORT} }}
[systems.BART]
stages = ["pretrain", "seq2seq"]
[systems."BART, slow"]
stages = ["pretrain", {{ stage = "seq2seq", set = {{ "optimizer.learning_rate" = 1e-5 }} }}]
[systems.DiscoDVT]
stages = ["pretrain", "warm-start", "reconstruct", "prior"]
[systems."DiscoDVT w/o relations"]
stages = ["pretrain", "warm-start", {{ stage = "reconstruct", set = {{ "loss.relation" = 0.0 }} }}, "prior"]
"""


def run_step(words: tuple[str, ...], log: Path, threads: int) -> None:
    """A step of a grid, without the curves of a training: they take longer than it."""
    training.plot = lambda directory: directory
    grid_run.run_command(words, log, threads)
