"""The discourse fit stage: an annotated corpus in, a relation classifier out; trained in the loop of every stage.

OUT is a checkpoint that `open_classifier` reads: `config.json`, `model.safetensors`, tokenizer, `README.md` (from
`card.md`), `metrics.jsonl`, `training.png` and the manifest. An unfinished run is resumed by the same request.
"""

import shutil
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Template

from discodvt import __version__
from discodvt.artefacts import MANIFEST
from discodvt.config import Batch, LoopSettings, Optimizer, Run, Validation
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import (
    PAIRS_PER_BATCH,
    SMALL,
    EncodedPairs,
    PairReader,
    build_classifier,
    open_classifier,
    shuffled,
)
from discodvt.evaluation.discourse.classifier_training import PairFeed, Phase, Phases, RelationObjective
from discodvt.evaluation.discourse.marker_pairs import Pair, annotated_pairs, pair_file
from discodvt.evaluation.matching import reference_file
from discodvt.training.assembly import Site
from discodvt.training.loop import Event
from discodvt.training.run import run_stage
from discodvt.training.stages import Stage

FIT_STAGE = "discourse-fit"
SUBWORD_TEXTS = 200_000  # arguments from which `small` learns its subwords
VALIDATIONS = 10
WEIGHT_DECAY = 0.01


def fit_classifier(
    corpus: Path,
    out: Path,
    *,
    encoder: str = SMALL,
    first: Path | None = None,
    drop_unknown: bool = False,
    epochs: float,
    first_epochs: float,
    learning_rate: float | None = None,
    pairs_per_step: int,
    argument_tokens: int,
    shuffle_labels: bool = False,
    seed: int = 0,
    overwrite: bool = False,
) -> Iterator[Event]:
    """Fit a classifier to the marker pairs of `corpus` (after those of `first`); what happens is yielded."""
    sources = {split: reference_file(corpus, split) for split in ("train", "valid")}
    if first is not None:  # a file of pairs, or another annotated corpus
        sources["first"] = reference_file(first, "train")
    peak = learning_rate or (1e-3 if encoder == SMALL else 2e-5)
    config = {
        "encoder": encoder,
        "first": first is not None,
        "drop_unknown": drop_unknown,
        "epochs": epochs,
        "first_epochs": first_epochs,
        "learning_rate": peak,
        "pairs_per_step": pairs_per_step,
        "argument_tokens": argument_tokens,
        "shuffle_labels": shuffle_labels,
        "seed": seed,
    }
    settings = LoopSettings(
        seed=seed,
        batch=Batch(stories_per_step=pairs_per_step, stories_per_micro_batch=pairs_per_step),
        optimizer=Optimizer(learning_rate=peak, weight_decay=WEIGHT_DECAY),
        validation=Validation(stories_per_batch=PAIRS_PER_BATCH),
        run=Run(precision="float32", tensorboard=False),
    )
    yield from run_stage(
        FIT_STAGE,
        out,
        settings,
        assemble=lambda site: _assemble(site, sources, config),
        config=config,
        inputs=[*sources.values(), *(path for path in [Path(encoder) / "model.safetensors"] if path.is_file())],
        resume=not overwrite and ((out / MANIFEST).exists() or any(out.glob("last-*"))),
        overwrite=overwrite,
    )
    for left in out.glob("last-*"):
        shutil.rmtree(left)


def _assemble(site: Site, sources: dict[str, Path], config: dict[str, Any]) -> Stage:
    """Model, pairs and steps of a new run, or of one resumed from a checkpoint."""
    if site.last is not None:
        model, tokenizer = open_classifier(site.last)
    else:
        model, tokenizer = build_classifier(
            config["encoder"], _texts(sources, config), argument_tokens=config["argument_tokens"], seed=config["seed"]
        )
    reader = PairReader(tokenizer, model.config.reading, model.config.argument_tokens)
    encoded = {role: _encoded(reader, path, config) for role, path in sources.items()}
    phases = Phases([_phase(encoded[role], role, config) for role in ("first", "train") if role in encoded])
    counts = np.bincount(encoded["train"].labels, minlength=len(MARKERS)).tolist()
    facts = {
        "pairs": {role: len(pairs) for role, pairs in encoded.items()},
        "markers": dict(zip(MARKERS, counts, strict=True)),
        "most_frequent": MARKERS[int(np.argmax(counts))],
        "parameters": model.num_parameters(),
    }

    def describe(target: Path, progress: dict[str, Any]) -> None:
        tokenizer.save_pretrained(target)
        markup = (files("discodvt.evaluation.discourse") / "card.md").read_text(encoding="utf-8")
        card = Template(markup, trim_blocks=True, keep_trailing_newline=True)
        text = card.render(config=config, facts=facts, progress=progress, version=__version__)
        (target / "README.md").write_text(text, encoding="utf-8")

    return Stage(
        objective=RelationObjective(model),
        order=phases,
        train=PairFeed(reader, [phase.pairs for phase in phases.each], [phase.log_shares for phase in phases.each]),
        valid=PairFeed(reader, [encoded["valid"]], [torch.zeros(len(MARKERS))]),
        total=phases.total,
        every_steps=max(1, phases.total // VALIDATIONS),
        describe=describe,
        learning_rate=lambda step: phases.learning_rate(step, peak=config["learning_rate"]),
        score=lambda step, figures: -figures["macro_accuracy"] if phases.in_last(step) else None,
        facts=facts,
    )


def _phase(pairs: EncodedPairs, role: str, config: dict[str, Any]) -> Phase:
    seed = config["seed"]
    own = shuffled(pairs, seed=seed) if config["shuffle_labels"] else pairs
    return Phase(own, config["epochs" if role == "train" else "first_epochs"], config["pairs_per_step"], seed)


def _encoded(reader: PairReader, path: Path, config: dict[str, Any]) -> EncodedPairs:
    pairs = reader.encode(_pairs(path, config))
    if len(pairs) == 0:
        raise BadRequest(f"{path}: no marker pairs in it; give more stories, annotated")
    return pairs


def _pairs(path: Path, config: dict[str, Any]) -> Iterator[Pair]:
    if path.suffix == ".parquet":
        return annotated_pairs(path)
    return pair_file(path, drop_unknown=config["drop_unknown"])


def _texts(sources: dict[str, Path], config: dict[str, Any]) -> Iterator[str]:
    """The arguments of the training pairs, for the subwords of `small`."""
    pairs = chain.from_iterable(_pairs(sources[role], config) for role in ("train", "first") if role in sources)
    return islice((text for pair in pairs for text in pair[:2]), SUBWORD_TEXTS)
