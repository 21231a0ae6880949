"""The codes study stage: a checkpoint and an annotated split in, the code dictionary out.

Each entry describes a code by the stories it occurs in. Writes `codes.json` ({"model", "split", "stories", "usage",
"codes", "told"}, the last some stories as [code, text]), `codes.csv`, and `codes.html` where the caller gives a
function that renders the dictionary.
"""

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from discodvt.artefacts import open_stage
from discodvt.corpus import Example, read_examples
from discodvt.data.tokens import Ragged, Tokens
from discodvt.discourse.labels import LABELS, MARKERS, UNKNOWN
from discodvt.evaluation.codes.inference import (
    Planner,
    annotated_split,
    open_planner,
    plans_in_shards,
    plans_of,
    tokens_of,
    weights_of,
)
from discodvt.evaluation.codes.occurrences import PLACES, Occurrences, Segments, cut_segments, find_phrases, usage_of
from discodvt.evaluation.metric import Floats, Ints
from discodvt.executors import Place, open_executor
from discodvt.resumable import read_json

STAGE = "codes study"
CODES = "codes.json"
TABLE = "codes.csv"
PAGE = "codes.html"
GRAMS, TOP, EXAMPLES = 5, 3, 3
Entry = dict[str, Any]


def study_codes(
    checkpoint: Path,
    corpus: Path,
    out: Path,
    *,
    split: str = "test",
    max_stories: int | None = None,
    example_stories: int = 12,
    prompt_tokens: int | None = None,
    story_tokens: int | None = None,
    workers: int | None = None,
    on: str = "local",
    resources: str = "",
    overwrite: bool = False,
    page: Callable[[dict[str, Any]], str] | None = None,
) -> dict[str, Any]:
    """Describe the codes of a checkpoint into `out`; returns what `codes.json` holds.

    `workers`, `on` and `resources` say who reads stories into plans (`Place` of `discodvt.executors`).
    """
    place = Place(on, workers, resources)
    path = annotated_split(corpus, split)
    settings = {
        "split": split,
        "max_stories": max_stories,
        "example_stories": example_stories,
        "prompt_tokens": prompt_tokens,
        "story_tokens": story_tokens,
    }
    inputs = [path, weights_of(checkpoint)]
    planner = open_planner(checkpoint, prompt_tokens=prompt_tokens, story_tokens=story_tokens)
    with open_stage(out, STAGE, config=settings, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            with stage.abandoned_if_wrong():
                tokens = tokens_of(planner, path, limit=max_stories)
                plans = _plans(planner, checkpoint, tokens, place)
                examples = read_examples(path, take=max_stories)
                found = _study(planner, examples, tokens, plans, example_stories=example_stories)
            found["split"] = split
            stage.write_json(CODES, found)
            with stage.writing(TABLE) as target:
                _write_table(target, found["codes"])
            if page is not None:
                with stage.writing(PAGE) as target:
                    target.write_text(page(found), encoding="utf-8")
            stage.finish(stories=found["stories"], codes_used=found["usage"]["used"])
        return read_json(out / CODES)


def _plans(planner: Planner, checkpoint: Path, tokens: Tokens, place: Place) -> Ragged:
    if place.here:
        return plans_of(planner, tokens)
    with open_executor(place) as executor:
        return plans_in_shards(executor, checkpoint, tokens)


def _study(
    planner: Planner, examples: Iterable[Example], tokens: Tokens, plans: Ragged, *, example_stories: int
) -> dict[str, Any]:
    """Describe the codes in the plans of stories."""
    config = planner.model.config
    segments = cut_segments(
        planner.tokenizer,
        examples,
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
        "told": segmented_stories(occurrences, segments, example_stories),
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


def describe_codes(occurrences: Occurrences, segments: Segments, tokens: Tokens, embedding: Floats) -> list[Entry]:
    """An entry for every code in use, the commonest first; `embedding` [K, E] gives the nearest codes."""
    phrases = find_phrases(occurrences, segments)
    relations = relation_counts(occurrences, tokens, segments.tokens_per_code)
    counts, places, positions = occurrences.counts, occurrences.places(), occurrences.mean_positions()
    follows = occurrences.followed_by()
    closeness = _cosines(embedding, counts > 0)
    by_code = np.argsort(occurrences.code, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(counts)])
    entries = []
    for code in np.argsort(-counts, kind="stable")[: int((counts > 0).sum())].tolist():
        entries.append(
            {
                "code": code,
                "count": int(counts[code]),
                "share": _rounded(counts[code] / counts.sum()),
                "grams": [{"text": text, "count": count} for text, count in phrases.of(code, GRAMS)],
                "markers": _top(phrases.markers[code], MARKERS, "marker"),
                "relations": _top(relations[code], LABELS[: LABELS.index(UNKNOWN)], "relation"),
                "place": {name: _rounded(share) for name, share in zip(PLACES, places[code], strict=True)}
                | {"mean": _rounded(positions[code])},
                "next": _neighbours(follows[code], follows.sum(axis=0)),
                "previous": _neighbours(follows[:, code], follows.sum(axis=1)),
                "nearest": [
                    {"code": int(other), "cosine": _rounded(closeness[code, other])}
                    for other in np.argsort(-closeness[code], kind="stable")[:TOP]
                    if np.isfinite(closeness[code, other])
                ],
                "examples": _examples(by_code[bounds[code] : bounds[code + 1]], occurrences, segments),
            }
        )
    return entries


def relation_counts(occurrences: Occurrences, tokens: Tokens, tokens_per_code: int) -> Ints:
    """How often an EDU joined to the one before it by each marker label begins in a code's segment [K, 20]."""
    labels = LABELS.index(UNKNOWN)
    found = np.zeros((occurrences.vocabulary, labels), dtype=np.int64)
    first = np.searchsorted(occurrences.story, np.arange(len(tokens)))  # where each plan begins
    for story in range(len(tokens)):
        given = tokens.relations[story]
        joined = np.flatnonzero((given >= 0) & (given < labels))
        begins = tokens.edus[story][joined + 1] - 1  # the EDU's first subword, counted from 0 without `<s>`
        codes = occurrences.code[first[story] + begins // tokens_per_code]
        np.add.at(found, (codes, given[joined]), 1)
    return found


def segmented_stories(occurrences: Occurrences, segments: Segments, count: int) -> list[Entry]:
    """Some stories of the split, evenly spaced, each as its segments: [code, text]."""
    first = np.searchsorted(occurrences.story, np.arange(len(segments.stories) + 1))
    chosen = np.unique(np.linspace(0, len(segments.stories) - 1, num=count).astype(np.int64)).tolist()
    return [
        {
            "id": segments.stories[row].id,
            "prompt": segments.stories[row].prompt,
            "segments": [
                [int(code), segments.text(row, index)]
                for index, code in enumerate(occurrences.code[first[row] : first[row + 1]])
            ],
        }
        for row in chosen
    ]


def _top(counts: Ints, names: tuple[str, ...], called: str) -> list[Entry]:
    """The commonest few, with their share of all."""
    best = [number for number in np.argsort(-counts, kind="stable")[:TOP] if counts[number]]
    whole = counts.sum()
    return [{called: names[n], "count": int(counts[n]), "share": _rounded(counts[n] / whole)} for n in best]


def _neighbours(counts: Ints, everywhere: Ints) -> list[Entry]:
    """The commonest neighbours on one side; lift is their share here over their share beside any code."""
    whole, total = counts.sum(), everywhere.sum()
    best = [other for other in np.argsort(-counts, kind="stable")[:TOP] if counts[other]]
    return [
        {
            "code": int(other),
            "share": _rounded(counts[other] / whole),
            "lift": _rounded(counts[other] * total / (whole * everywhere[other])),
        }
        for other in best
    ]


def _examples(rows: Ints, occurrences: Occurrences, segments: Segments) -> list[Entry]:
    """Occurrences spread over the split, each with the text before and after."""
    begins = occurrences.index[rows] * segments.tokens_per_code
    with_text = rows[
        begins < segments.ids.lengths[occurrences.story[rows]]
    ]  # not where nothing but the story's end is left
    return [
        {
            "id": segments.stories[int(occurrences.story[row])].id,
            "before": _text(row, occurrences, segments, -1),
            "text": _text(row, occurrences, segments),
            "after": _text(row, occurrences, segments, 1),
        }
        for row in with_text[_spread(len(with_text))].tolist()
    ]


def _text(row: int, occurrences: Occurrences, segments: Segments, step: int = 0) -> str:
    return segments.text(int(occurrences.story[row]), int(occurrences.index[row]) + step)


def _spread(count: int) -> Ints:
    """A few numbers below `count`, evenly spaced and away from the ends; none below 0."""
    few = min(EXAMPLES, count)
    return ((np.arange(few) + 0.5) * count / max(few, 1)).astype(np.int64)


def _cosines(embedding: Floats, used: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """How alike the vectors of codes are [K, K]; a code itself and codes not in use are left out (-inf)."""
    unit = embedding / np.maximum(np.linalg.norm(embedding, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    cosines[:, ~used] = -np.inf
    np.fill_diagonal(cosines, -np.inf)
    return np.asarray(cosines)


def _rounded(value: Any) -> float:
    return round(float(value), 4)
