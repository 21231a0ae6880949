"""The evaluate stage: a file of stories and references in, `scores.json` out (or only returned, without a directory).

With a second file of stories the two systems are compared as well, score by score. `pairs.jsonl` keeps each story
beside the reference it was scored against, {id, prompt, story, reference}, for whoever shows them.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from discodvt.artefacts import file_hash, open_stage
from discodvt.data.tokens import Ragged
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.occurrences import spread, utilisation
from discodvt.evaluation.comparison import compare
from discodvt.evaluation.intervals import make_resampler, need_spread
from discodvt.evaluation.matching import Match, MatchedStories, StoryLine, match, read_story_lines, reference_file
from discodvt.evaluation.metrics.repetition import LookBack
from discodvt.evaluation.scores import Mode, evaluate
from discodvt.executors import Place, open_executor

SCORES = "scores.json"
PAIRS = "pairs.jsonl"


def evaluate_files(
    stories: Path,
    references: Path,
    *,
    out: Path | None = None,
    against: Path | None = None,
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
    """Score a file of stories; texts are cut into words in shards (`Place` of `discodvt.executors` says where).

    {"stories", "dropped", "unused" (references), "mode", "names", "scores", "comparison" (None for one system),
    "utilisation" (of the plans the stories were written from; None where one has none)}
    """
    place = Place(on, workers, resources)
    references = reference_file(references, split)
    drawing = {"resamples": resamples, "seed": seed}
    settings = {"mode": mode, "look_back": look_back, "mauve_model": mauve_model} | drawing
    files = {"stories": stories, "references": references} | ({"against": against} if against else {})
    systems = [read_story_lines(path) for role, path in files.items() if role != "references"]
    pairs = match(systems, read_story_lines(references), by=by, drop_unmatched=drop_unmatched)
    prompts = _prompts(pairs.systems[0], by)
    need_spread(make_resampler(len(pairs.references), prompts, **drawing), stories)
    if out is None:
        return _scores(pairs, settings | {"prompts": prompts}, place)
    matching = {"match": by, "drop_unmatched": drop_unmatched}
    config = settings | matching | {"files": {role: file_hash(path) for role, path in files.items()}}
    with open_stage(out, "evaluate", config=config, inputs=list(files.values()), overwrite=overwrite) as stage:
        if not stage.complete:
            try:
                scores = _scores(pairs, settings | {"prompts": prompts}, place)
            except BadRequest:
                stage.abandon()
                raise
            with stage.writing(PAIRS) as path:
                _write_pairs(path, pairs)
            stage.write_json(SCORES, scores)
            stage.finish(stories=len(pairs.references), dropped=pairs.dropped, unused=pairs.unused)
        found: dict[str, Any] = json.loads((out / SCORES).read_text(encoding="utf-8"))
        return found


def _scores(pairs: MatchedStories, settings: dict[str, Any], place: Place) -> dict[str, Any]:
    references = [story.story for story in pairs.references]
    texts = [[story.story for story in system] for system in pairs.systems]
    finishes = [_finishes(system) for system in pairs.systems]
    with open_executor(place) as executor:
        scores = evaluate(texts[0], references, finishes=finishes[0], executor=executor, **settings)
        compared = None
        if len(texts) == 2:
            known = (finishes[0], finishes[1]) if finishes[0] is not None and finishes[1] is not None else None
            compared = compare(texts[0], texts[1], references, finishes=known, executor=executor, **settings)
    return {
        "stories": len(references),
        "dropped": pairs.dropped,
        "unused": pairs.unused,
        "mode": settings["mode"],
        "names": list(scores),  # in the order of the paper's table
        "scores": {name: score.as_dict() for name, score in scores.items()},
        "comparison": compared and {name: each.as_dict() for name, each in compared.items()},
        "utilisation": _utilisation(pairs.systems[0]),
    }


def _write_pairs(path: Path, pairs: MatchedStories) -> None:
    with path.open("w", encoding="utf-8") as file:
        for story, reference in zip(pairs.systems[0], pairs.references, strict=True):
            record = {"id": story.id, "prompt": story.prompt, "story": story.story, "reference": reference.story}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _prompts(stories: list[StoryLine], by: Match) -> list[str] | None:
    """The prompts, where stories share them: then they are resampled together."""
    prompts = [story.prompt for story in stories if story.prompt is not None]
    return prompts if by == "prompt" or len(set(prompts)) < len(prompts) == len(stories) else None


def _utilisation(stories: list[StoryLine]) -> dict[str, Any] | None:
    plans = [np.array(story.plan, dtype=np.int32) for story in stories if story.plan is not None]
    return spread(utilisation(Ragged.of(plans))) if len(plans) == len(stories) else None


def _finishes(stories: list[StoryLine]) -> list[str] | None:
    finishes = [story.finish for story in stories if story.finish is not None]
    return finishes if len(finishes) == len(stories) else None
