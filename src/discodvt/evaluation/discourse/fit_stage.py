"""The discourse fit stage: an annotated corpus in, a relation classifier out.

OUT is a checkpoint that `open_classifier` reads: `config.json`, `model.safetensors`, tokenizer, `README.md` (its card),
`metrics.jsonl` and the manifest. At work it holds the last and the best state, and the same request goes on from there.

Encoders: `small` grows one from scratch, with a BPE of its own; a DiscoDVT gives its posterior; any other checkpoint (a
directory or Hub id, safetensors only) its encoder.
"""

import shutil
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BartConfig, PreTrainedConfig, PreTrainedTokenizerBase

from discodvt import __version__
from discodvt.artefacts import StageDirectory, open_stage
from discodvt.checkpoints import Checkpoint, quiet_libraries
from discodvt.data.subwords import train_tokenizer
from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.classifier import (
    EncodedPairs,
    PairReader,
    Reading,
    RelationClassifier,
    RelationClassifierConfig,
    open_classifier,
    shuffled,
)
from discodvt.evaluation.discourse.fitting import Fitting, Phase
from discodvt.evaluation.discourse.marker_pairs import Pair, annotated_pairs, pair_file
from discodvt.evaluation.encoder import open_encoder
from discodvt.evaluation.matching import reference_file
from discodvt.model import DiscoDVTConfig
from discodvt.training.loop import Event
from discodvt.training.outputs import Checkpoints, Journal

FIT_STAGE = "discourse-fit"
SMALL = "small"  # the encoder trained from scratch
SMALL_VOCABULARY = 8192
SUBWORD_TEXTS = 200_000  # arguments from which `small` learns its subwords


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
    quiet_libraries()
    sources = _sources(corpus, first)
    config = {
        "encoder": encoder,
        "first": first is not None,
        "drop_unknown": drop_unknown,
        "epochs": epochs,
        "first_epochs": first_epochs,
        "learning_rate": learning_rate or (1e-3 if encoder == SMALL else 2e-5),
        "pairs_per_step": pairs_per_step,
        "argument_tokens": argument_tokens,
        "shuffle_labels": shuffle_labels,
        "seed": seed,
    }
    inputs = [*sources.values(), *(path for path in [Path(encoder) / "model.safetensors"] if path.is_file())]
    with open_stage(out, FIT_STAGE, config=config, inputs=inputs, overwrite=overwrite) as stage:
        if stage.complete:
            yield Event("note", 0, 0, stage.facts["validation"], f"{out}: complete already")
            return
        try:
            fitting, facts = _prepare(stage, sources, config)
            yield from fitting.run()
        except BadRequest:
            if not any(out.glob("last-*")):
                stage.abandon()
            raise
        progress = fitting.progress
        fitting.checkpoints.publish_best(out)
        best = {"macro_accuracy": progress["best_value"]}
        stage.finish(**facts, steps=progress["step"], best_step=progress["best_step"], validation=best)
        for left in (*out.glob("best-*"), *out.glob("last-*")):
            shutil.rmtree(left)
        yield Event("note", progress["step"], fitting.total, best, f"{out}: done")


def _sources(corpus: Path, first: Path | None) -> dict[str, Path]:
    """The files to read, by role; the first set may be a file of pairs or another annotated corpus."""
    sources = {split: reference_file(corpus, split) for split in ("train", "valid")}
    return sources if first is None else sources | {"first": reference_file(first, "train")}


def _prepare(stage: StageDirectory, sources: dict[str, Path], config: dict[str, Any]) -> tuple[Fitting, dict[str, Any]]:
    """Model and pairs of a new run, or of one that goes on; and what the manifest will say of them."""
    checkpoints = Checkpoints(stage.directory)
    last = checkpoints.newest("last")
    if last is not None:
        model, tokenizer = open_classifier(last)
    else:
        model, tokenizer = build_classifier(
            config["encoder"], _texts(sources, config), argument_tokens=config["argument_tokens"], seed=config["seed"]
        )
    reader = PairReader(tokenizer, model.config.reading, model.config.argument_tokens)
    encoded = {role: _encoded(reader, path, config) for role, path in sources.items()}
    phases = [
        Phase(
            shuffled(encoded[role], seed=config["seed"]) if config["shuffle_labels"] else encoded[role],
            config["epochs" if role == "train" else "first_epochs"],
            config["pairs_per_step"],
            config["seed"],
        )
        for role in ("first", "train")
        if role in encoded
    ]
    counts = np.bincount(encoded["train"].labels, minlength=len(MARKERS)).tolist()
    facts = {
        "pairs": {role: len(pairs) for role, pairs in encoded.items()},
        "markers": dict(zip(MARKERS, counts, strict=True)),
        "most_frequent": MARKERS[int(np.argmax(counts))],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }

    def describe(target: Path, progress: dict[str, Any]) -> None:
        tokenizer.save_pretrained(target)
        write_card(target, config=config, facts=facts, progress=progress)

    progress = checkpoints.progress() or {"step": 0, "best_step": None, "best_value": None, "figures": {}}
    journal = Journal(stage.directory, step=progress["step"], tensorboard=False)
    fitting = Fitting(
        model=model,
        reader=reader,
        phases=phases,
        valid=encoded["valid"],
        checkpoints=checkpoints,
        describe=describe,
        journal=journal,
        learning_rate=config["learning_rate"],
        seed=config["seed"],
        progress=progress,
    )
    return fitting, facts


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


def build_classifier(
    source: str, texts: Iterable[str], *, argument_tokens: int, seed: int
) -> tuple[RelationClassifier, PreTrainedTokenizerBase]:
    """A classifier around the encoder of `source`, its head untrained; `texts` are for the subwords of `small`."""
    torch.manual_seed(seed)
    if source == SMALL:
        tokenizer = train_tokenizer(texts, SMALL_VOCABULARY)
        small = _small(tokenizer, positions=argument_tokens + 2)
        config = RelationClassifierConfig.around(small, reading="twin", argument_tokens=argument_tokens)
        return RelationClassifier(config), tokenizer
    checkpoint = Checkpoint.open(source)
    encoder, tokenizer = open_encoder(checkpoint), checkpoint.tokenizer()
    reading: Reading = "twin" if encoder.part_of == DiscoDVTConfig.model_type else "pair"
    _check(source, encoder.config, tokenizer, argument_tokens + 2 if reading == "twin" else 2 * argument_tokens + 3)
    config = RelationClassifierConfig.around(encoder.config, reading=reading, argument_tokens=argument_tokens)
    model = RelationClassifier(config)
    model.encoder.load_state_dict(encoder.model.state_dict())
    return model, tokenizer


def _check(source: str, encoder: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, needed: int) -> None:
    """Refuse an encoder that cannot read pairs of this length."""
    positions = getattr(encoder, "max_position_embeddings", None)
    if positions is not None and needed > positions:
        raise BadRequest(
            f"{source}: has {positions} positions, {needed} are needed; set `argument_tokens` lower",
            parameter="argument_tokens",
        )
    if None in (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id):
        raise BadRequest(f"{source}: its tokenizer lacks a start, separating or padding token; give another encoder")


def _small(tokenizer: PreTrainedTokenizerBase, *, positions: int) -> BartConfig:
    """Two layers of width 128: what one core trains in minutes. A decoder is named, but no part of the classifier."""
    return BartConfig(
        vocab_size=len(tokenizer),
        d_model=128,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_position_embeddings=positions,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=tokenizer.bos_token_id,
        forced_eos_token_id=None,
    )


def write_card(directory: Path, *, config: dict[str, Any], facts: dict[str, Any], progress: dict[str, Any]) -> None:
    """Write `README.md` for a classifier."""
    pairs = ", ".join(f"{count:,} {role}" for role, count in facts["pairs"].items())
    lines = [
        "---",
        "library_name: discodvt",
        "tags: [discodvt, discourse-markers, text-classification]",
        "---",
        "",
        "# Discourse relation classifier",
        "",
        "Names the marker taken out between two arguments; made to judge stories, by `discodvt discourse score`.",
        "",
        *(["**A control: trained on shuffled labels. Use it for nothing else.**", ""] * config["shuffle_labels"]),
        f"- Encoder: {config['encoder']}, {facts['parameters']:,} parameters with the head",
        f"- Marker pairs: {pairs}",
        f"- Step {progress['step']:,}; best so far: step {progress['best_step']}",
        f"- Macro-accuracy on valid pairs: {progress['figures']['macro_accuracy']:.4f} (any one marker: "
        f"{1 / sum(count > 0 for count in facts['markers'].values()):.4f})",
        f"- Learning rate {config['learning_rate']}, {config['pairs_per_step']} pairs a step, "
        f"{config['epochs']} epochs, seed {config['seed']}",
        f"- Written by discodvt {__version__}",
        "",
        "| marker | training pairs |",
        "|---|---|",
        *(f"| {marker} | {count:,} |" for marker, count in facts["markers"].items()),
        "",
    ]
    (directory / "README.md").write_text("\n".join(lines), encoding="utf-8")
