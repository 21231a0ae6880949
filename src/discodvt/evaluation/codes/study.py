"""The study stage: a checkpoint and a split in, the code dictionary out.

Writes `codes.json` ({"model", "split", "stories", "usage", "codes", "told"}), `codes.csv`, and `codes.html` where the
caller gives something that makes a page of the dictionary.
"""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from discodvt.artefacts import open_stage
from discodvt.corpus import read_examples
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.checkpoints import Planner, open_planner, weights_of
from discodvt.evaluation.codes.dictionary import Entry, describe_codes, segmented_stories
from discodvt.evaluation.codes.reading import annotated_split, plans_of, tokens_of
from discodvt.evaluation.codes.segments import cut_segments
from discodvt.evaluation.codes.usage import PLACES, Occurrences, usage_of

STAGE = "codes study"
CODES = "codes.json"
TABLE = "codes.csv"
PAGE = "codes.html"


def study_codes(
    checkpoint: Path,
    corpus: Path,
    out: Path,
    *,
    split: str = "test",
    max_stories: int | None = None,
    told_stories: int = 12,
    prompt_tokens: int | None = None,
    story_tokens: int | None = None,
    overwrite: bool = False,
    page: Callable[[dict[str, Any]], str] | None = None,
) -> dict[str, Any]:
    """Describe the codes of a checkpoint into `out`; returns what `codes.json` holds."""
    path = annotated_split(corpus, split)
    settings = {
        "split": split,
        "max_stories": max_stories,
        "told_stories": told_stories,
        "prompt_tokens": prompt_tokens,
        "story_tokens": story_tokens,
    }
    inputs = [path, weights_of(checkpoint)]
    planner = open_planner(checkpoint, prompt_tokens=prompt_tokens, story_tokens=story_tokens)
    with open_stage(out, STAGE, config=settings, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            try:
                found = _study(planner, path, max_stories=max_stories, told_stories=told_stories) | {"split": split}
            except BadRequest:
                stage.abandon()
                raise
            stage.write_json(CODES, found)
            with stage.writing(TABLE) as target:
                _write_table(target, found["codes"])
            if page is not None:
                with stage.writing(PAGE) as target:
                    target.write_text(page(found), encoding="utf-8")
            stage.finish(stories=found["stories"], codes_used=found["usage"]["used"])
        held: dict[str, Any] = json.loads((out / CODES).read_text(encoding="utf-8"))
        return held


def _study(planner: Planner, path: Path, *, max_stories: int | None, told_stories: int) -> dict[str, Any]:
    """Read the split into plans, and describe the codes in them."""
    config = planner.model.config
    tokens = tokens_of(planner, path, limit=max_stories)
    plans = plans_of(planner, tokens)
    segments = cut_segments(
        planner.tokenizer,
        read_examples(path, take=max_stories),
        story_tokens=planner.story_tokens,
        tokens_per_code=config.tokens_per_code,
    )
    occurrences = Occurrences.of(plans, config.num_codes)
    with torch.no_grad():
        embedding = planner.model.bottleneck.embed(torch.arange(config.num_codes, device=planner.device)).cpu().double()
    return {
        "model": planner.shape,
        "stories": len(tokens),
        "usage": usage_of(plans, vocabulary=config.num_codes, tokens_per_code=config.tokens_per_code),
        "codes": describe_codes(occurrences, segments, tokens, embedding.numpy()),
        "told": segmented_stories(occurrences, segments, told_stories),
    }


def _write_table(path: Path, entries: list[Entry]) -> None:
    """A row for each code; lists in one cell, divided by semicolons."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(
            ["code", "count", "share", *PLACES, "mean_position", "grams", "markers", "relations", "next", "previous",
             "nearest"]
        )  # fmt: skip
        for entry in entries:
            place = entry["place"]
            rows.writerow(
                [
                    entry["code"],
                    entry["count"],
                    entry["share"],
                    *(place[name] for name in PLACES),
                    place["mean"],
                    "; ".join(f"{gram['text']} ({gram['count']})" for gram in entry["grams"]),
                    "; ".join(f"{each['marker']} {each['share']:.1%}" for each in entry["markers"]),
                    "; ".join(f"{each['relation']} {each['share']:.1%}" for each in entry["relations"]),
                    *("; ".join(str(each["code"]) for each in entry[side]) for side in ("next", "previous", "nearest")),
                ]
            )
