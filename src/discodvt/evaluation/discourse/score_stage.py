"""The discourse score stage: stories, human references and a classifier in, `discourse.json` out."""

import json
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
    prompts_of,
    score_marker_counts,
)
from discodvt.evaluation.intervals import make_resampler, need_spread
from discodvt.evaluation.matching import Match, match, reference_file
from discodvt.evaluation.scores import Score

DISCOURSE = "discourse.json"
SCORE_STAGE = "discourse-score"


def score_files(
    stories: Path,
    references: Path,
    classifier: Path,
    *,
    out: Path | None = None,
    against: Path | None = None,
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
    given = {"stories": stories, "references": references} | ({"against": against} if against else {})
    files = {role: reference_file(path, split) for role, path in given.items()}
    weights = classifier / "model.safetensors"
    settings = {"match": by, "parser": parser, "swap_arg2": swap_arg2, "resamples": resamples, "seed": seed}

    def work() -> dict[str, Any]:
        stories = {
            role: read_paired(path, split=split, parser=parser, progress=progress) for role, path in files.items()
        }
        for role, path in files.items():
            if not any(story.pairs for story in stories[role]):
                raise BadRequest(f"{path}: no marker pairs in its {len(stories[role])} stories; give longer {role}")
            resampler = make_resampler(len(stories[role]), prompts_of(stories[role]), resamples=resamples, seed=seed)
            need_spread(resampler, path)
        most_frequent = MARKERS.index(manifest["facts"]["most_frequent"])
        return _results(stories, classifier, settings, most_frequent)

    if out is None:
        return work()
    hashes = {role: file_hash(path) for role, path in files.items()} | {"classifier": file_hash(weights)}
    config = settings | {"files": hashes}
    with open_stage(out, SCORE_STAGE, config=config, inputs=[*files.values(), weights], overwrite=overwrite) as stage:
        if not stage.complete:
            try:
                found = work()
            except BadRequest:
                stage.abandon()
                raise
            stage.write_json(DISCOURSE, found)
            stage.finish(stories=found["stories"], pairs=found["n_pairs"])
        written: dict[str, Any] = json.loads((out / DISCOURSE).read_text(encoding="utf-8"))
        return written


def _results(
    stories: dict[str, list[PairedStory]], classifier: Path, settings: dict[str, Any], most_frequent: int
) -> dict[str, Any]:
    """The content of `discourse.json`."""
    by, resamples, seed = settings["match"], settings["resamples"], settings["seed"]
    drawing = {"resamples": resamples, "seed": seed}
    if "against" in stories:
        stories |= _matched(stories["stories"], stories["against"], by)
    counted = _counted(stories, classifier, swap=settings["swap_arg2"], seed=seed)
    ours, human = counted["stories"], counted["references"]
    scores = score_marker_counts(ours, human, **drawing)
    human_scores = score_marker_counts(human, human, **drawing)
    constant = np.zeros_like(ours.total)
    constant[:, most_frequent] = ours.total[:, most_frequent]
    baseline = accuracy_scores(constant, ours.total)
    compared = compare_marker_counts(ours, counted["against"], human, **drawing) if "against" in counted else None
    sides = {"human": human_scores, "model": scores}
    return {
        "stories": len(stories["stories"]),
        "n_pairs": int(ours.total.sum()),
        "names": list(scores),
        "scores": _dicts(scores),
        "human": {
            "stories": len(stories["references"]),
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
    stories: dict[str, list[PairedStory]], classifier: Path, *, swap: Swap, seed: int
) -> dict[str, MarkerCounts]:
    """Let the classifier judge every pair of every role."""
    model, tokenizer = open_classifier(classifier, device=best_device())
    reader = PairReader(tokenizer, model.config.reading, model.config.argument_tokens)
    counted = {}
    for role, own in stories.items():
        pairs = [pair for story in own for pair in story.pairs]
        counted[role] = count_markers(own, predict(model, reader, reader.encode(swapped(pairs, swap, seed=seed))))
    return counted


def _matched(ours: list[PairedStory], theirs: list[PairedStory], by: Match) -> dict[str, list[PairedStory]]:
    """Two systems' stories in one order, prompt by prompt."""
    known = {story.record.where: story for story in (*ours, *theirs)}
    systems = [[story.record for story in system] for system in (ours, theirs)]
    first, second = match(systems, systems[0], by=by).systems
    return {"stories": [known[each.where] for each in first], "against": [known[each.where] for each in second]}


def _dicts(scores: dict[str, Score]) -> dict[str, Any]:
    return {name: score.as_dict() for name, score in scores.items()}


def _shares(scores: dict[str, Score], names: Sequence[str] | dict[str, Any]) -> dict[str, float]:
    return {name: scores[f"share-{name}"].value for name in names}
