"""Loading a writer: a directory (or Hub repository) with a DiscoDVT and its `prior/`, or with a plain language model.

An engine is chosen for the backbone: `bart` for BART, `llama` for the Llama family on a CPU, else `transformers`. Only
the last imports transformers, which would double the time to the first word.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from discodvt.checkpoints import Checkpoint, Weights
from discodvt.errors import BadRequest
from discodvt.writing import llama
from discodvt.writing.bart import Bart, Decoder, Encoder, Shape
from discodvt.writing.code_engine import CodeEngine
from discodvt.writing.engine import Engine
from discodvt.writing.latent import Latent
from discodvt.writing.sampling import SamplingParams

ENGINES = ("bart", "llama", "transformers")


@dataclass(frozen=True, slots=True)
class LoadedWriter:
    """The parts of a writer. A plain language model has no latent, and without a latent there is no prior."""

    checkpoint: Checkpoint
    subwords: Tokenizer
    model_defaults: SamplingParams
    int8: bool
    generator: Engine
    latent: Latent | None
    prior: Engine | None


def load_writer(source: str | Path | None, device: torch.device, *, int8: bool, engine: str | None) -> LoadedWriter:
    """Open a directory, a Hub id, or the storyteller that ships."""
    checkpoint = Checkpoint.open(source)
    directory, planned = checkpoint.directory, checkpoint.kind == "discodvt"
    if checkpoint.kind.endswith("-prior"):
        raise BadRequest(f"{directory}: a prior alone; give the directory it lies in, which is the writer")
    chosen = _engine_for(checkpoint, device, engine)
    if int8 and chosen == "transformers":
        raise BadRequest(f"`int8`: not with engine transformers, which {directory} needs; leave it out", "int8")
    config, weights, generation = checkpoint.config, checkpoint.weights(device), checkpoint.generation
    inside = "generator." if checkpoint.kind in ("discodvt", "discodvt-cvae") else ""
    generator = _ENGINES[chosen](checkpoint, weights.under(inside), device=device, int8=int8)
    latent = Latent(weights, config) if planned else None
    prior = None
    if latent is not None and checkpoint.prior is not None:
        codes = checkpoint.prior.config
        if codes.get("num_codes") != latent.num_codes:
            raise BadRequest(f"{directory / 'prior'}: the prior of another model; train the `prior` stage on this one")
        prior = _prior(checkpoint.prior, device=device, int8=int8, engine=engine)
    return LoadedWriter(
        checkpoint=checkpoint,
        subwords=checkpoint.bare_tokenizer(),
        model_defaults=SamplingParams(
            temperature=generation.get("temperature") or 1.0,
            repetition_penalty=generation.get("repetition_penalty") or 1.0,
        ),
        int8=int8,
        generator=generator,
        latent=latent,
        prior=prior,
    )


def _engine_for(checkpoint: Checkpoint, device: torch.device, asked: str | None) -> str:
    """The engine that was asked for, if it can run the model, else the fastest that can."""
    directory, backbone = checkpoint.directory, checkpoint.backbone
    kind = checkpoint.kind
    if kind.startswith("discodvt"):  # those made when BART was the only backbone do not name it
        kind = "bart" if "decoder_layers" in backbone else str(backbone.get("model_type"))
    if asked is not None and asked not in ENGINES:
        raise BadRequest(f"`engine` {asked!r}: expected one of {', '.join(ENGINES)}", "engine")
    if asked == "bart" and kind != "bart":
        raise BadRequest(f"`engine` bart cannot run {directory}: it is a {kind}; leave it out", "engine")
    if asked == "llama" and (problem := llama.unfit(backbone)):
        raise BadRequest(f"`engine` llama cannot run {directory}: {problem}; leave it out", "engine")
    if asked is not None:
        return asked
    if kind == "bart":
        return "bart"
    return "llama" if device.type == "cpu" and not llama.unfit(backbone) else "transformers"


def _separator(checkpoint: Checkpoint) -> int | None:
    separator: int | None = checkpoint.config.get("separator_token_id")
    return separator


def _bart(checkpoint: Checkpoint, weights: Weights, *, device: torch.device, int8: bool) -> Engine:
    """A BART; Hugging Face's own checkpoints leave the `model.` out. Stories start with `<s>`, as in training."""
    config = checkpoint.backbone
    prefix = "model." if "model.decoder.embed_positions.weight" in weights else ""
    tied = (f"{prefix}shared.weight", f"{prefix}decoder.embed_tokens.weight")
    embedding, head = weights.first(*tied), weights.first("lm_head.weight", *tied)
    bias = weights["final_logits_bias"][0] if "final_logits_bias" in weights else head.new_zeros(len(head))
    shape = Shape.of(config)
    return Bart(
        Encoder(weights.under(f"{prefix}encoder."), embedding, shape, int8=int8),
        Decoder(weights.under(f"{prefix}decoder."), embedding, head, bias, shape, int8=int8),
        start=config.get("bos_token_id", 0),
        end=config.get("eos_token_id", 2),
    )


def _llama(checkpoint: Checkpoint, weights: Weights, *, device: torch.device, int8: bool) -> Engine:
    return llama.Llama(weights, checkpoint.backbone, separator=_separator(checkpoint), int8=int8)


def _transformers(checkpoint: Checkpoint, weights: Weights, *, device: torch.device, int8: bool) -> Engine:
    from transformers import AutoModelForCausalLM

    from discodvt.baselines.cvae_model import BartCVAE
    from discodvt.model import DiscoDVT
    from discodvt.model.backbones import new_backbone
    from discodvt.writing.transformers_engine import TransformersEngine

    name = str(checkpoint.directory)
    if checkpoint.kind in ("discodvt", "discodvt-cvae"):
        whole = checkpoint.load(DiscoDVT if checkpoint.kind == "discodvt" else BartCVAE)
        backbone, generator = whole.backbone, whole.generator
    else:
        generator = checkpoint.load(AutoModelForCausalLM)
        try:
            backbone = new_backbone(generator.config, separator=_separator(checkpoint))
            assert backbone.symbols
        except BadRequest as error:
            raise BadRequest(f"{name}: {error}") from None
    dtype = torch.bfloat16 if device.type == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    return TransformersEngine(backbone, generator.to(device, dtype), name)


_ENGINES: dict[str, Callable[..., Engine]] = {"bart": _bart, "llama": _llama, "transformers": _transformers}


def _prior(checkpoint: Checkpoint, *, device: torch.device, int8: bool, engine: str | None) -> Engine:
    """A prior of either kind, by the engine of its language model."""
    config, weights = checkpoint.config, checkpoint.weights(device)
    if not checkpoint.causal:
        return _bart_prior(weights, config, int8)
    codes: int = config["num_codes"]
    words = checkpoint.backbone["vocab_size"] - codes - 3
    chosen = _engine_for(checkpoint, device, engine)
    if chosen == "llama":
        inner: Engine = llama.Llama(
            weights.under("language_model."), checkpoint.backbone, separator=words + codes, int8=int8
        )
    else:
        from discodvt.model.prior import CausalPlanPrior
        from discodvt.writing.transformers_engine import TransformersEngine

        model = checkpoint.load(CausalPlanPrior, device=device)
        inner = TransformersEngine(model.backbone, model.language_model, str(checkpoint.directory))
    return CodeEngine(inner, words=words, codes=codes)


def _bart_prior(weights: Weights, config: dict[str, Any], int8: bool) -> Bart:
    """A BART shape: its encoder reads subwords, its decoder writes codes, of which bos (K) and pad (K + 2) are none."""
    text, codes = weights["encoder.embed_tokens.weight"], weights.first("decoder.embed_tokens.weight", "head.weight")
    start, end, pad = (config["num_codes"] + special for special in range(3))
    bias = codes.new_zeros(len(codes))
    bias[[start, pad]] = float("-inf")
    shape = Shape.of(config)
    return Bart(
        Encoder(weights.under("encoder."), text, shape, int8=int8),
        Decoder(weights.under("decoder."), codes, codes, bias, shape, int8=int8),
        start=start,
        end=end,
    )
