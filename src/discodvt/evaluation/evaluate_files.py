"""The evaluate stage: a file of stories and references in, `scores.json` out (or only returned, without a directory).

Several files are the stories of one system, trained with several seeds, to the same prompts. With files `against` the
two systems are compared as well, score by score. `pairs.jsonl` keeps each story (of the first training) beside the
reference it was scored against, {id, prompt, story, reference}, for whoever shows them.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discodvt.artefacts import file_hash, open_stage
from discodvt.data.tokens import Ragged
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.occurrences import spread, utilisation
from discodvt.evaluation.comparison import compare_seeds
from discodvt.evaluation.intervals import make_resampler, need_spread
from discodvt.evaluation.matching import (
    Match,
    MatchedStories,
    StoryLine,
    match,
    prompts_of,
    read_story_lines,
    reference_file,
)
from discodvt.evaluation.metrics.repetition import LookBack
from discodvt.evaluation.scores import Mode, evaluate_seeds
from discodvt.executors import Place, open_executor
from discodvt.executors.kept import KeptResults
from discodvt.storage import remove

SCORES = "scores.json"
PAIRS = "pairs.jsonl"
SHARDS = "shards"  # words of the texts, until the work is complete


def evaluate_files(
    stories: Path | Sequence[Path],
    references: Path,
    *,
    out: Path | None = None,
    against: Path | Sequence[Path] | None = None,
    split: str = "test",
    by: Match = "id",
    drop_unmatched: bool = False,
    mode: Mode = "paper",
    look_back: LookBack = "paper",
    mauve_model: str | None = None,
    resamples: int,
    seed: int = 0,
    overwrite: bool = False,
    workers: int | None = None,
    on: str = "local",
    resources: str = "",
) -> dict[str, Any]:
    """Score a file of stories, or a file for each training of a system; `workers`, `on` and `resources` say who cuts
    the texts into words (`Place` of `discodvt.executors`).

    {"stories", "seeds" (trainings), "dropped", "unused" (references), "mode", "names", "scores", "comparison" (None
    for one system), "utilisation" (of the plans the stories were written from; None where one has none)}
    """
    place = Place(on, workers, resources)
    references = reference_file(references, split)
    drawing = {"resamples": resamples, "seed": seed}
    settings = {"mode": mode, "look_back": look_back, "mauve_model": mauve_model} | drawing
    files = {"stories": trainings(stories), "references": [references]} | (
        {"against": trainings(against)} if against else {}
    )
    systems = [read_story_lines(path) for role, paths in files.items() for path in paths if role != "references"]
    pairs = match(systems, read_story_lines(references), by=by, drop_unmatched=drop_unmatched)
    prompts = _prompts(pairs.systems[0], by)
    need_spread(make_resampler(len(pairs.references), prompts, **drawing), files["stories"][0])
    seeds = len(files["stories"])
    if out is None:
        return _scores(pairs, seeds, settings | {"prompts": prompts}, place)
    matching = {"match": by, "drop_unmatched": drop_unmatched}
    config = settings | matching | {"files": {role: hash_of(paths) for role, paths in files.items()}}
    inputs = list(dict.fromkeys(path for paths in files.values() for path in paths))
    with open_stage(out, "evaluate", config=config, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            try:
                scores = _scores(pairs, seeds, settings | {"prompts": prompts}, place, out / SHARDS)
            except BadRequest:
                stage.abandon()
                raise
            with stage.writing(PAIRS) as path:
                _write_pairs(path, pairs)
            stage.write_json(SCORES, scores)
            remove(out / SHARDS)
            stage.finish(stories=len(pairs.references), dropped=pairs.dropped, unused=pairs.unused)
        found: dict[str, Any] = json.loads((out / SCORES).read_text(encoding="utf-8"))
        return found


def trainings(stories: Path | Sequence[Path]) -> list[Path]:
    """The files of a system, one for each training."""
    return [stories] if isinstance(stories, Path) else list(stories)


def hash_of(paths: Sequence[Path]) -> str:
    """The hash of a system's stories: that of its file, or of the hashes of several."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def _scores(
    pairs: MatchedStories, seeds: int, settings: dict[str, Any], place: Place, shards: Path | None = None
) -> dict[str, Any]:
    """The first `seeds` systems are the trainings of one, the others those it is compared with.

    What shards give is kept in the folder `shards`.
    """
    references = [story.story for story in pairs.references]
    texts = [[story.story for story in system] for system in pairs.systems]
    finishes = [_finishes(system) for system in pairs.systems]
    known = all(finish is not None for finish in finishes)
    ours, theirs = finishes[:seeds], finishes[seeds:]
    with open_executor(place) as executor:
        settings["executor"] = executor if shards is None else KeptResults(executor, shards)
        scores = evaluate_seeds(
            texts[:seeds], references, finishes=ours if None not in ours else [None] * seeds, **settings
        )
        compared = None
        if theirs:
            both = (ours, theirs) if known else ([None] * len(ours), [None] * len(theirs))
            compared = compare_seeds(texts[:seeds], texts[seeds:], references, finishes=both, **settings)
    return {
        "stories": len(references),
        "seeds": seeds,
        "dropped": pairs.dropped,
        "unused": pairs.unused,
        "mode": settings["mode"],
        "names": list(scores),  # in the order of the paper's table
        "scores": {name: score.as_dict() for name, score in scores.items()},
        "comparison": compared and {name: each.as_dict() for name, each in compared.items()},
        "utilisation": _utilisation([story for system in pairs.systems[:seeds] for story in system]),
    }


def _write_pairs(path: Path, pairs: MatchedStories) -> None:
    with path.open("w", encoding="utf-8") as file:
        for story, reference in zip(pairs.systems[0], pairs.references, strict=True):
            record = {"id": story.id, "prompt": story.prompt, "story": story.story, "reference": reference.story}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _prompts(stories: list[StoryLine], by: Match) -> list[str] | None:
    """The prompts, where stories share them: then they are resampled together."""
    prompts = prompts_of(stories)
    return prompts if by == "prompt" or (prompts is not None and len(set(prompts)) < len(prompts)) else None


def _utilisation(stories: list[StoryLine]) -> dict[str, Any] | None:
    plans = [np.array(story.plan, dtype=np.int32) for story in stories if story.plan is not None]
    return spread(utilisation(Ragged.of(plans))) if len(plans) == len(stories) else None


def _finishes(stories: list[StoryLine]) -> list[str] | None:
    finishes = [story.finish for story in stories if story.finish is not None]
    return finishes if len(finishes) == len(stories) else None
