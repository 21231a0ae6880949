"""The discourse score stage: stories, human references and a classifier in, `discourse.json` out.

Several files of stories are one system, trained with several seeds, to the same prompts.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discodvt.artefacts import file_hash, open_stage, read_manifest
from discodvt.checkpoints import best_device, quiet_libraries
from discodvt.discourse.labels import CATEGORIES, MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import PairReader, open_classifier, predict
from discodvt.evaluation.discourse.fit_stage import FIT_STAGE
from discodvt.evaluation.discourse.marker_pairs import PairedStory, Progress, Swap, read_paired, swapped
from discodvt.evaluation.discourse.relation_scores import (
    MarkerCounts,
    accuracy_scores,
    compare_marker_counts,
    count_markers,
    score_marker_counts,
    shared_markers,
)
from discodvt.evaluation.evaluate_files import hash_of, trainings
from discodvt.evaluation.intervals import make_resampler, need_spread
from discodvt.evaluation.matching import Match, match, prompts_of, reference_file
from discodvt.evaluation.scores import Score
from discodvt.resumable import read_json

DISCOURSE = "discourse.json"
SCORE_STAGE = "discourse-score"


def score_files(
    stories: Path | Sequence[Path],
    references: Path,
    classifier: Path,
    *,
    out: Path | None = None,
    against: Path | Sequence[Path] | None = None,
    split: str = "test",
    by: Match = "id",
    parser: str = "bundled",
    swap_arg2: Swap = "none",
    resamples: int,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Score stories beside human references; `docs/discourse-evaluation.md` says what is returned and written."""
    quiet_libraries()
    manifest = read_manifest(classifier, FIT_STAGE)
    given = {"stories": trainings(stories), "references": [references]}
    given |= {"against": trainings(against)} if against else {}
    files = {role: [reference_file(path, split) for path in paths] for role, paths in given.items()}
    weights = classifier / "model.safetensors"
    settings = {"match": by, "parser": parser, "swap_arg2": swap_arg2, "resamples": resamples, "seed": seed}

    def work() -> dict[str, Any]:
        stories: dict[str, list[list[PairedStory]]] = {role: [] for role in files}
        for role, path in ((role, path) for role, paths in files.items() for path in paths):
            read = read_paired(path, split=split, parser=parser, progress=progress)
            if not any(story.pairs for story in read):
                raise BadRequest(f"{path}: no marker pairs in its {len(read)} stories; give longer {role}")
            need_spread(
                make_resampler(len(read), prompts_of([story.record for story in read]), resamples=resamples, seed=seed),
                path,
            )
            stories[role].append(read)
        most_frequent = MARKERS.index(manifest["facts"]["most_frequent"])
        return _results(stories, classifier, settings, most_frequent)

    if out is None:
        return work()
    hashes = {role: hash_of(paths) for role, paths in files.items()} | {"classifier": file_hash(weights)}
    config = settings | {"files": hashes}
    inputs = list(dict.fromkeys([*(path for paths in files.values() for path in paths), weights]))
    with open_stage(out, SCORE_STAGE, config=config, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            with stage.abandoned_if_wrong():
                found = work()
            stage.write_json(DISCOURSE, found)
            stage.finish(stories=found["stories"], pairs=found["n_pairs"])
        return read_json(out / DISCOURSE)


def _results(
    stories: dict[str, list[list[PairedStory]]], classifier: Path, settings: dict[str, Any], most_frequent: int
) -> dict[str, Any]:
    """The content of `discourse.json`."""
    by, resamples, seed = settings["match"], settings["resamples"], settings["seed"]
    drawing = {"resamples": resamples, "seed": seed}
    seeds = len(stories["stories"])
    systems = _matched([*stories["stories"], *stories.get("against", [])], by)
    stories |= {"stories": systems[:seeds]} | ({"against": systems[seeds:]} if "against" in stories else {})
    counted = _counted(stories, classifier, swap=settings["swap_arg2"], seed=seed)
    ours, (human,) = counted["stories"], counted["references"]
    scores = score_marker_counts(ours, human, **drawing)
    human_scores = score_marker_counts([human], human, **drawing)
    total = np.concatenate([training.total for training in ours])
    constant = np.zeros_like(total)
    constant[:, most_frequent] = total[:, most_frequent]
    baseline = accuracy_scores(constant, total, among=shared_markers(ours))
    compared = compare_marker_counts(ours, counted["against"], human, **drawing) if "against" in counted else None
    sides = {"human": human_scores, "model": scores}
    return {
        "stories": len(stories["stories"][0]),
        "seeds": seeds,
        "n_pairs": int(total.sum()),
        "names": list(scores),
        "scores": _dicts(scores),
        "human": {
            "stories": len(stories["references"][0]),
            "n_pairs": int(human.total.sum()),
            "scores": _dicts(human_scores),
        },
        "baseline": {
            "marker": MARKERS[most_frequent],
            "scores": dict(zip(baseline.names, baseline.values.tolist(), strict=True)),
        },
        "shares": {side: _shares(found, CATEGORIES) for side, found in sides.items()},
        "markers": {side: _shares(found, MARKERS) for side, found in sides.items()},
        "entropy_bits": {side: found["entropy"].value for side, found in sides.items()},
        "kl_bits": scores["KL"].value,
        "swap_arg2": settings["swap_arg2"],
        "comparison": compared and {name: each.as_dict() for name, each in compared.items()},
    }


def _counted(
    stories: dict[str, list[list[PairedStory]]], classifier: Path, *, swap: Swap, seed: int
) -> dict[str, list[MarkerCounts]]:
    """Let the classifier judge every pair of every role."""
    model, tokenizer = open_classifier(classifier, device=best_device())
    reader = PairReader(tokenizer, model.config.reading, model.config.argument_tokens)

    def count(own: list[PairedStory]) -> MarkerCounts:
        pairs = [pair for story in own for pair in story.pairs]
        return count_markers(own, predict(model, reader, reader.encode(swapped(pairs, swap, seed=seed))))

    return {role: [count(own) for own in files] for role, files in stories.items()}


def _matched(systems: list[list[PairedStory]], by: Match) -> list[list[PairedStory]]:
    """The stories of several files in one order, prompt by prompt."""
    if len(systems) == 1:
        return systems
    known = {story.record.where: story for system in systems for story in system}
    records = [[story.record for story in system] for system in systems]
    return [[known[each.where] for each in system] for system in match(records, records[0], by=by).systems]


def _dicts(scores: dict[str, Score]) -> dict[str, Any]:
    return {name: score.as_dict() for name, score in scores.items()}


def _shares(scores: dict[str, Score], names: Sequence[str] | dict[str, Any]) -> dict[str, float]:
    return {name: scores[f"share-{name}"].value for name in names}
