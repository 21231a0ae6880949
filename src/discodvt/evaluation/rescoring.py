"""Measuring Aristotelian Rescoring: do its rescorers know anything, do plots gain by them, do stories follow plots?

Reads a directory of `rescoring join`, the plots it was trained from, and a second relevance scorer that took no part
(`pairs/judge`). Writes `measured.json`, every figure with a 95% interval:

accuracy-KIND     of each rescorer on held-out pairs; words-KIND: of a bag of words trained on the same pairs
judge             the second scorer's ln p(real) of plots: rescored minus plain, of the same prompts and seeds
own-plot          entity edit distance of stories to another prompt's plot minus that to their own
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from discodvt.artefacts import open_stage
from discodvt.baselines.aristotle import open_drawer
from discodvt.baselines.plot_corpus import PAIR_SCHEMA
from discodvt.baselines.plots import entity_distance, source_text
from discodvt.baselines.scorers import REAL, PlotScorer, ScorerModel, scorer_input
from discodvt.baselines.stages.plot_scorer import encode_pairs, wilson
from discodvt.checkpoints import Checkpoint
from discodvt.corpus import read_examples, read_rows
from discodvt.errors import BadRequest
from discodvt.writing import Request, StoryWriter

STAGE, FIGURES = "rescoring measure", "measured.json"
Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]  # done, in all


def measure(
    joined: Path,
    plots: Path,
    out: Path,
    *,
    judge: Path,
    prompts: int = 50,
    max_pairs: int = 1000,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> dict[str, Any]:
    """Measure a writer of `rescoring join`; returns its figures. `progress` is told of each prompt."""
    if not (plots / "pairs").is_dir():
        raise BadRequest(f"{plots}: no pairs in it; give a directory of `discodvt rescoring plots`")
    second = Checkpoint.open(judge).require("discodvt-scorer").load(ScorerModel).scorer.eval()
    config = {"prompts": prompts, "max_pairs": max_pairs, "seed": seed}
    inputs = [joined / "rescoring.json", plots / "plots" / "valid.parquet", Path(judge) / "model.safetensors"]
    with open_stage(out, STAGE, config=config, inputs=inputs, overwrite=overwrite) as stage:
        if not stage.complete:
            figures = _accuracies(joined, plots, max_pairs, seed)
            asked = [example.prompt for example in read_examples(plots / "plots" / "valid.parquet")][:prompts]
            figures["judge"] = _judged(joined, second, asked, seed, progress)
            figures["own-plot"] = _followed(joined, asked, seed, progress)
            stage.write_json(FIGURES, figures)
            stage.finish(**figures)
        return stage.facts


def _accuracies(joined: Path, plots: Path, most: int, seed: int) -> dict[str, Any]:
    """Of rescorers and of bags of words, and of how many more pairs the rescorer has the sides of right."""
    drawer, figures = open_drawer(joined), {}
    for kind, scorer in drawer.scorers.items():
        train, valid = (
            list(read_rows(plots / "pairs" / kind / f"{split}.parquet", PAIR_SCHEMA, take=most))
            for split in ("train", "valid")
        )
        sides = [
            encode_pairs(drawer.tokenizer, valid, side, longest=drawer.scorer_tokens) for side in ("story", "changed")
        ]
        real, changed = ([float(_log_odds(scorer, row)) for row in rows] for rows in sides)
        right = np.array([(a > 0) + (b <= 0) for a, b in zip(real, changed, strict=True)], dtype=float)  # 0 to 2
        bag = BagOfWords.trained(train)
        known = np.array([(bag(row["story"]) > 0) + (bag(row["changed"]) <= 0) for row in valid], dtype=float)
        for name, hits in ((f"accuracy-{kind}", right), (f"words-{kind}", known)):
            low, high = wilson(int(hits.sum()), 2 * len(hits))
            figures[name] = _figure(float(hits.mean()) / 2, low, high, len(hits))
        figures[f"above-words-{kind}"] = mean_with_interval((right - known) / 2, seed=seed)
    return figures


@torch.no_grad()
def _log_odds(scorer: PlotScorer, ids: Any) -> Tensor:
    """ln p(real) / p(changed) of one input."""
    row = torch.as_tensor(np.asarray(ids), dtype=torch.long)[None]
    logits: Tensor = scorer.eval()(row, torch.ones_like(row))[0].float()
    return logits[REAL] - logits[1 - REAL]


class BagOfWords:
    """Logistic regression over the words of a continuation, blind to their order."""

    def __init__(self, weights: dict[str, float], bias: float) -> None:
        self.weights, self.bias = weights, bias

    def __call__(self, text: str) -> float:
        """Log odds of being real."""
        return self.bias + sum(self.weights.get(word, 0.0) for word in text.split())

    @classmethod
    def trained(cls, pairs: Sequence[dict[str, Any]], *, penalty: float = 1.0, steps: int = 50) -> "BagOfWords":
        """By Newton-like steps (L-BFGS) under a ridge penalty."""
        texts = [row[side].split() for side in ("story", "changed") for row in pairs]
        vocabulary = {word: number for number, word in enumerate(sorted({word for text in texts for word in text}))}
        counts = torch.zeros(len(texts), len(vocabulary))
        for number, text in enumerate(texts):
            for word in text:
                counts[number, vocabulary[word]] += 1
        labels = torch.cat([torch.ones(len(pairs)), torch.zeros(len(pairs))])
        weights, bias = torch.zeros(len(vocabulary), requires_grad=True), torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.LBFGS([weights, bias], max_iter=steps, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            found = torch.nn.functional.binary_cross_entropy_with_logits(
                counts @ weights + bias, labels, reduction="sum"
            )
            total: Tensor = found + penalty * weights.square().sum()
            torch.autograd.backward(total)
            return total

        optimizer.step(loss)
        learned = weights.tolist()
        return cls({word: learned[number] for word, number in vocabulary.items()}, float(bias.detach()))


def _judged(joined: Path, judge: PlotScorer, prompts: Sequence[str], seed: int, progress: Progress) -> dict[str, Any]:
    """ln p(real) of rescored plots minus that of plain ones, by a scorer that had no part in choosing."""
    drawer = open_drawer(joined)
    plain = replace(drawer, mode="plain")
    gains = []
    for number, prompt in enumerate(prompts):
        scores = []
        for each in (drawer, plain):
            text = source_text(prompt, each.draw(prompt, seed=seed + number))
            ids = drawer.tokenizer.backend_tokenizer.encode(f" {text}", add_special_tokens=False).ids
            odds = _log_odds(judge, scorer_input([], ids, longest=drawer.scorer_tokens))
            scores.append(float(torch.nn.functional.logsigmoid(odds)))
        gains.append(scores[0] - scores[1])
        progress(number + 1, 2 * len(prompts))
    return mean_with_interval(np.array(gains), seed=seed)


def _followed(joined: Path, prompts: Sequence[str], seed: int, progress: Progress) -> dict[str, Any]:
    """How much nearer stories are to their own plots than to those of the next prompt."""
    writer: Any = StoryWriter.from_pretrained(joined)
    writer.keep_tags = True
    requests = [Request(prompt, index=number, seed=seed, id=str(number)) for number, prompt in enumerate(prompts)]
    stories: dict[str, str] = {}
    for story in writer.write_many(requests, batch_size=16):
        stories[story.id] = story.text
        progress(len(prompts) + len(stories), 2 * len(prompts))
    plots = [writer.plot(request) for request in requests]
    nearer = [
        entity_distance(plots[(number + 1) % len(plots)], stories[str(number)])
        - entity_distance(plot, stories[str(number)])
        for number, plot in enumerate(plots)
    ]
    return mean_with_interval(np.array(nearer), seed=seed)


def mean_with_interval(values: Floats, *, seed: int, resamples: int = 2000) -> dict[str, Any]:
    """A mean and its percentile bootstrap."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    low, high = np.quantile(values[drawn].mean(1), (0.025, 0.975))
    return _figure(float(values.mean()), float(low), float(high), len(values))


def _figure(value: float, low: float, high: float, count: int) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "n": count}
