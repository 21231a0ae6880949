"""The codes measure stage: what a model's plans gain on held-out stories; and measured runs side by side.

Reads a checkpoint, a split of an annotated corpus and its training split; with `against` also a plain seq2seq, with
`without_relations` a model trained without the relation loss, and the checkpoint's prior where it has one. Writes
`figures.json` and `figures.csv`. `comparison` sets measured runs side by side, such as models with different
numbers of CNN layers (appendix A.1).
"""

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discodvt.artefacts import StageDirectory, open_stage, read_manifest
from discodvt.data.tokens import Ragged, Tokens
from discodvt.errors import BadRequest
from discodvt.evaluation.codes import plan_gain
from discodvt.evaluation.codes.inference import (
    Planner,
    annotated_split,
    check_prior,
    open_plain,
    open_planner,
    open_prior,
    plans_of,
    same_subwords,
    tokens_of,
    trained_on,
    weights_of,
)
from discodvt.evaluation.codes.occurrences import usage_of, utilisation
from discodvt.evaluation.codes.plan_gain import Measured, Ratio
from discodvt.evaluation.intervals import make_resampler, need_spread
from discodvt.resumable import read_json
from discodvt.stored_weights import WHOLE
from discodvt.training.stages.prior import PLANS, load_plans

STAGE = "codes measure"
FIGURES = "figures.json"
TABLE = "figures.csv"
COMPARED = (
    "model",
    "conv_layers",
    "tokens_per_code",
    "codes",
    "codes_used",
    "code_perplexity",
    "nll",
    "swap_gap",
    "utilisation",
)
COLUMNS = ("value", "low", "high", "n", "unit", "direction", "signature")
Status = Callable[[str], None]  # shows what is being done


def measure_codes(
    checkpoint: Path,
    corpus: Path,
    out: Path,
    *,
    split: str = "test",
    against: Path | None = None,
    without_relations: Path | None = None,
    prior: Path | None = None,
    max_stories: int | None = None,
    train_stories: int = 5000,
    prompt_tokens: int | None = None,
    story_tokens: int | None = None,
    resamples: int = 1000,
    seed: int = 0,
    overwrite: bool = False,
    status: Status = lambda message: None,
) -> dict[str, Any]:
    """Measure a checkpoint into `out`; returns what `figures.json` holds."""
    if split == "train":
        raise BadRequest(
            "`split` train: figures are of held-out stories; the training split fits probe and bigram",
            parameter="split",
        )
    files = {"held": annotated_split(corpus, split), "train": annotated_split(corpus, "train")}
    prior = prior or (checkpoint / "prior" if (checkpoint / "prior").is_dir() else None)
    roles = {"model": checkpoint, "against": against, "without_relations": without_relations, "prior": prior}
    models = {role: path for role, path in roles.items() if path is not None}
    settings = {
        "split": split,
        "models": {role: path.name for role, path in models.items()},
        "max_stories": max_stories,
        "train_stories": train_stories,
        "prompt_tokens": prompt_tokens,
        "story_tokens": story_tokens,
        "resamples": resamples,
        "seed": seed,
    }
    inputs = [*files.values(), *map(weights_of, models.values())]
    if prior is not None:
        check_prior(prior, checkpoint)
    planner = open_planner(checkpoint, prompt_tokens=prompt_tokens, story_tokens=story_tokens)
    with open_stage(out, STAGE, config=settings, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            with stage.abandoned_if_wrong():
                limits = {"held": max_stories, "train": train_stories}
                tokens = {part: tokens_of(planner, path, limit=limits[part]) for part, path in files.items()}
                resampler = make_resampler(len(tokens["held"]), None, resamples=resamples, seed=seed)
                need_spread(resampler, files["held"])
                found = _figures(
                    planner, tokens, models, Measured(resampler), train_file=files["train"], seed=seed, status=status
                )
            _write(stage, found | {"split": split})
        return read_json(out / FIGURES)


def _figures(
    planner: Planner,
    tokens: dict[str, Tokens],
    models: dict[str, Path],
    measured: Measured,
    *,
    train_file: Path,
    seed: int,
    status: Status,
) -> dict[str, Any]:
    """All groups of figures over the held-out stories."""
    plain = open_plain(models["against"], planner) if "against" in models else None
    other = _other_planner(planner, models["without_relations"]) if "without_relations" in models else None
    prior = open_prior(models["prior"], planner) if "prior" in models else None

    status(f"encoding {len(tokens['held']):,} stories into plans")
    held = plan_gain.Stories(planner, tokens["held"], plans_of(planner, tokens["held"]))
    status("reconstruction under their own plans and under other stories' plans")
    groups = [plan_gain.reconstruction(held, plain, measured)]
    status(f"encoding {len(tokens['train']):,} training stories into plans")
    writer = models["prior"].resolve().parent if "prior" in models else None
    train_plans = _written(writer, train_file, planner, tokens["train"]) or plans_of(planner, tokens["train"])
    train = plan_gain.Stories(planner, tokens["train"], _first(train_plans, len(tokens["train"])))
    status("relation accuracies and probe")
    groups.append(plan_gain.relations(held, train, other, measured, seed=seed))
    if prior is not None:
        status("perplexities of the prior, a unigram and a bigram")
        groups.append(plan_gain.prior(held, prior, train_plans, measured))
    utilised = Ratio(utilisation(held.plans), np.ones(len(held.plans)))
    share = measured.figure("distinct codes by codes of a plan, mean over stories", utilised, unit="fraction")
    figures = {name: each for found, _ in groups for name, each in found.items()} | {"utilisation": share}
    config = planner.model.config
    return {
        "model": planner.shape,
        "stories": len(held.tokens),
        "tokens": int(held.tokens.story_lengths.sum()),
        "usage": usage_of(held.plans, vocabulary=config.num_codes, tokens_per_code=config.tokens_per_code),
        "names": list(figures),  # in the order of a table
        "figures": figures,
        "facts": {name: fact for _, facts in groups for name, fact in facts.items()},
    }


def _other_planner(planner: Planner, source: Path) -> Planner:
    """Another planner that reads the very same subwords."""
    same_subwords(source, planner)
    return open_planner(source, prompt_tokens=planner.prompt_tokens, story_tokens=planner.story_tokens)


def _written(writer: Path | None, train_file: Path, planner: Planner, tokens: Tokens) -> Ragged | None:
    """All plans the prior was trained on, where its run left them and they are those of these training stories.

    They are this planner's: a writer that has other weights was refused.
    """
    if writer is None or not all((writer / name).is_file() for name in (PLANS, WHOLE)):
        return None
    if not trained_on(writer, train_file):
        return None
    plans = load_plans(writer / PLANS)["train"]
    expected = -(-tokens.story_lengths // planner.model.config.tokens_per_code)
    return plans if np.array_equal(plans.lengths[: len(tokens)], expected) else None


def _first(plans: Ragged, stories: int) -> Ragged:
    return Ragged(plans.values[: plans.offsets[stories]], plans.offsets[: stories + 1])


def _write(stage: StageDirectory, found: dict[str, Any]) -> None:
    stage.write_json(FIGURES, found)
    with stage.writing(TABLE) as path, path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["figure", *COLUMNS])
        rows.writerows([name, *map(found["figures"][name].get, COLUMNS)] for name in found["names"])
    stage.finish(stories=found["stories"], codes_used=found["usage"]["used"])


def read_measured(directories: Sequence[Path]) -> list[dict[str, Any]]:
    """What `discodvt codes measure` left in each directory, by number of CNN layers; all of the same stories.

    Models that share a name are called after their directories.
    """
    runs, files = [], []
    for directory in directories:
        inputs = read_manifest(directory, STAGE)["inputs"]
        runs.append(read_json(directory / FIGURES))
        files.append({file for name, file in inputs.items() if Path(name).name == f"{runs[-1]['split']}.parquet"})
    for directory, run, file in zip(directories, runs, files, strict=True):
        if (run["split"], run["stories"]) != (runs[0]["split"], runs[0]["stories"]):
            raise BadRequest(
                f"{directory}: measured on {run['stories']} {run['split']} stories, {directories[0]} on "
                f"{runs[0]['stories']} {runs[0]['split']} stories; compare runs measured on the same"
            )
        if file != files[0]:
            raise BadRequest(
                f"{directory}: measured on another {run['split']}.parquet than {directories[0]}; "
                "compare runs measured on the same stories"
            )
    names = Counter(run["model"]["name"] for run in runs)
    for directory, run in zip(directories, runs, strict=True):
        if names[run["model"]["name"]] > 1:
            run["model"]["name"] = str(directory)
    return sorted(runs, key=lambda run: int(run["model"]["conv_layers"]))


def comparison(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each run."""
    return [
        {
            "model": run["model"]["name"],
            "conv_layers": run["model"]["conv_layers"],
            "tokens_per_code": run["model"]["tokens_per_code"],
            "codes": run["model"]["codes"],
            "codes_used": run["usage"]["used"],
            "code_perplexity": run["usage"]["perplexity"],
            **{name: run["figures"][name]["value"] for name in ("nll", "swap_gap", "utilisation")},
        }
        for run in runs
    ]


def write_comparison(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """The rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COMPARED, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
