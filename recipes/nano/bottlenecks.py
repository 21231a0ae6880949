"""The five bottlenecks compared: same backbone, stories, steps and number of codes, two seeds (docs/experiments.md).

usage: python recipes/nano/bottlenecks.py CORPUS OUT [--backbone DIR --seeds 0 1 --only bits fsq --stages codes]

CORPUS is annotated; a few thousand stories will do. For each seed and bottleneck the stage `codes`, where words are
predicted from the latent alone, then the generator under codes that stay, which is the same training for all. Writes
OUT/BOTTLENECK-SEED/STAGE/, and prints a table of the last validation figures: means over seeds, and each value. What is
finished is skipped and what was stopped is resumed, so the command can be repeated. About 5 minutes of a core for each
`codes`, 6 for each `generator`. Step times are rows of `discodvt bench train`.
"""

import json
import time
from argparse import ArgumentParser
from pathlib import Path
from statistics import mean
from typing import Any

from discodvt.training.recipes import read_recipe, toml_value
from discodvt.training.run import train

HERE = Path(__file__).parent
SHARED = {
    "data.story_tokens": 128,
    "data.max_valid_stories": 120,
    "batch.stories_per_step": 16,
    "batch.stories_per_micro_batch": 16,
    "validation.stories_per_batch": 40,
    "run.tensorboard": False,
    "run.precision": "float32",
}
CODES = {
    "model.num_codes": 256,
    "run.steps": 240,
    "optimizer.warmup_steps": 10,
    "validation.every_steps": 60,
    "run.save_every_steps": 60,
}
GENERATOR = {  # a pretrained model is nearly deaf to a plan for its first 80 steps, more so with fewer words dropped
    "run.steps": 150,
    "optimizer.learning_rate": 1.5e-3,
    "optimizer.warmup_steps": 10,
    "word_dropout.rate": 0.2,
    "validation.every_steps": 75,
    "loss.relation": 0.5,
}
NO_PROBABILITIES = {"loss.batch_entropy": 0.0, "loss.position_entropy": 0.0, "relaxation.noise_free": 0.0}
ONE_OF_K = {"model.code_logit_gain": 4.0, "watchdog.restart_dead_codes": True}
ANNEALED = {"relaxation.temperature": 0.9, "relaxation.min_temperature": 0.1, "relaxation.min_temperature_at": 0.8}
OWN: dict[str, dict[str, Any]] = {  # what each has of its own in the stage `codes`
    "gumbel": ONE_OF_K | ANNEALED,  # soft codes must become hard
    "straight-through": ONE_OF_K,
    "bits": {},
    "vq": NO_PROBABILITIES,
    "fsq": NO_PROBABILITIES,
}
FIGURES = ("reconstruction", "swap_gap", "codes_used", "code_perplexity", "relation_accuracy")


def run(recipe: str, out: Path, settings: dict[str, Any]) -> None:
    """What `discodvt train --resume` does, without its start-up."""
    overrides = [f"{key}={toml_value(value)}" for key, value in (SHARED | settings).items()]
    started = time.process_time()
    for event in train(read_recipe(HERE / f"{recipe}.toml", overrides), out, resume=True):
        if event.kind == "valid":
            shown = ", ".join(f"{key} {value:.4g}" for key, value in event.figures.items())
            print(f"{out} {event.step}/{event.total}, {time.process_time() - started:.0f} CPU s: {shown}", flush=True)


def figures(run: Path) -> dict[str, float]:
    """Those of the last validation of a run."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return next(row for row in reversed(rows) if row["kind"] == "valid")


def table(out: Path, names: list[str], seeds: list[int], stages: list[str]) -> str:
    """A row for each bottleneck and stage."""
    lines = ["| | " + " | ".join(FIGURES) + " |", "|---" * (1 + len(FIGURES)) + "|"]
    for stage in stages:
        for name in names:
            found = [figures(out / f"{name}-{seed}" / stage) for seed in seeds]
            cells = []
            for key in FIGURES:
                values = [row[key] for row in found]
                cells.append(f"{mean(values):.3f} ({', '.join(f'{value:.4g}' for value in values)})")
            lines.append(f"| {stage}, {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--backbone", default="runs/nano/backbone")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", nargs="+", choices=OWN, default=list(OWN))
    parser.add_argument("--stages", nargs="+", choices=("codes", "generator"), default=["codes", "generator"])
    given = parser.parse_args()
    for stage in given.stages:
        for seed in given.seeds:
            for name in given.only:
                directory = given.out / f"{name}-{seed}"
                settings: dict[str, Any] = {"seed": seed, "data.corpus": str(given.corpus)}
                if stage == "codes":
                    settings |= CODES | {"model.init": given.backbone, "model.bottleneck": name} | OWN[name]
                else:
                    settings |= GENERATOR | {"model.init": str(directory / "codes")}
                run(stage, directory / stage, settings)
    print(table(given.out, given.only, given.seeds, given.stages))
