"""Loading a writer: a directory (or Hub repository) with a DiscoDVT and its `prior/`, or with a plain language model.

An engine is chosen for the backbone: `bart` for BART, `llama` for the Llama family on a CPU, else `transformers`, which
can run all of them. Only the last imports transformers, which would double the time to the first word.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer

from discodvt.checkpoints import Checkpoint, Weights
from discodvt.errors import BadRequest
from discodvt.writing.engines import llama
from discodvt.writing.engines.bart import Bart, Decoder, Encoder, Shape
from discodvt.writing.engines.engine import Engine, Vocabulary
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
        needed = "" if engine else f", which {directory} needs"
        raise BadRequest(f"`int8`: not with engine transformers{needed}; leave it out", "int8")
    config, weights, generation = checkpoint.config, checkpoint.weights(device), checkpoint.generation
    parts = weights.under("generator." if checkpoint.kind in ("discodvt", "discodvt-cvae") else "")
    if not checkpoint.causal:
        generator = _bart(chosen, checkpoint, parts, device, int8)
    else:
        vocabulary = Vocabulary.of_text(checkpoint.backbone, config.get("separator_token_id"))
        generator = _causal(chosen, checkpoint, parts, vocabulary, device, int8)
    latent = Latent(weights, config) if planned else None
    prior = None
    if latent is not None and checkpoint.prior is not None:
        if checkpoint.prior.config.get("num_codes") != latent.num_codes:
            raise BadRequest(f"{directory / 'prior'}: the prior of another model; train the `prior` stage on this one")
        prior = _prior(checkpoint.prior, latent.num_codes, device, int8)
    return LoadedWriter(
        checkpoint=checkpoint,
        subwords=checkpoint.bare_tokenizer(),
        model_defaults=SamplingParams(
            temperature=generation.get("temperature") or 1.0,
            repetition_penalty=generation.get("repetition_penalty") or 1.0,
            plan_strength=config.get("plan_strength", 1.0),
            prompt_bias=generation.get("prompt_bias") or 0.0,
            plan_temperature=(checkpoint.prior.generation.get("temperature") or 1.0) if checkpoint.prior else 1.0,
        ),
        int8=int8,
        generator=generator,
        latent=latent,
        prior=prior,
    )


def _engine_for(checkpoint: Checkpoint, device: torch.device, asked: str | None = None) -> str:
    """The engine that was asked for, if it can run the model, else the fastest that can."""
    directory, backbone = checkpoint.directory, checkpoint.backbone
    kind = checkpoint.kind
    if kind.startswith("discodvt"):  # those made when BART was the only backbone do not name it
        kind = "bart" if "decoder_layers" in backbone else str(backbone.get("model_type"))
    if asked is not None and asked not in ENGINES:
        raise BadRequest(f"`engine` {asked!r}: expected one of {', '.join(ENGINES)}", "engine")
    problems = {
        "bart": "" if kind == "bart" else f"it is a {kind}",
        "llama": llama.unfit(backbone),
        "transformers": "",
    }
    if asked is not None and problems[asked]:
        raise BadRequest(f"`engine` {asked} cannot run {directory}: {problems[asked]}; leave it out", "engine")
    if asked is not None:
        return asked
    able = [name for name in ENGINES if not problems[name] and not (name == "llama" and device.type != "cpu")]
    return able[0]


def _bart(engine: str, checkpoint: Checkpoint, weights: Weights, device: torch.device, int8: bool) -> Engine:
    """A BART; Hugging Face's own checkpoints leave the `model.` out. Stories start with `<s>`, as in training."""
    config = checkpoint.backbone
    start, end = config.get("bos_token_id", 0), config.get("eos_token_id", 2)
    vocabulary = Vocabulary(start=start, end=end, prompt_start=(start,), prompt_end=(end,))
    if engine == "transformers":
        from discodvt.model.backbones import new_backbone
        from discodvt.writing.engines.transformers_bart import BartByTransformers
        from discodvt.writing.engines.transformers_engine import load_model

        model = load_model(config, weights, device)
        return BartByTransformers(new_backbone(model.config), model, vocabulary, str(checkpoint.directory))
    prefix = "model." if "model.decoder.embed_positions.weight" in weights else ""
    tied = (f"{prefix}shared.weight", f"{prefix}decoder.embed_tokens.weight")
    embedding, head = weights.first(*tied), weights.first("lm_head.weight", *tied)
    bias = weights["final_logits_bias"][0] if "final_logits_bias" in weights else head.new_zeros(len(head))
    shape = Shape.of(config)
    return Bart(
        Encoder(weights.under(f"{prefix}encoder."), embedding, shape, int8=int8),
        Decoder(weights.under(f"{prefix}decoder."), embedding, head, bias, shape, int8=int8),
        vocabulary,
    )


def _causal(
    engine: str, checkpoint: Checkpoint, weights: Weights, vocabulary: Vocabulary, device: torch.device, int8: bool
) -> Engine:
    """A causal language model, of which these are the weights."""
    config = checkpoint.backbone
    if engine == "llama":
        return llama.Llama(weights, config, vocabulary, int8=int8)

    from discodvt.model.backbones import new_backbone
    from discodvt.writing.engines.transformers_engine import TransformersEngine, load_model

    model = load_model(config, weights, device)
    backbone = new_backbone(model.config, separator=vocabulary.start + vocabulary.first)
    return TransformersEngine(backbone, model, vocabulary, str(checkpoint.directory))


def _prior(checkpoint: Checkpoint, codes: int, device: torch.device, int8: bool) -> Engine:
    """A prior: a BART whose encoder reads subwords and whose decoder writes codes, or a causal model that does both."""
    config, weights, chosen = checkpoint.config, checkpoint.weights(device), _engine_for(checkpoint, device)
    if chosen != "bart":
        first = checkpoint.backbone["vocab_size"] - codes - 3
        vocabulary = Vocabulary.of_codes(codes, first=first)
        return _causal(chosen, checkpoint, weights.under("language_model."), vocabulary, device, int8)
    vocabulary, shape = Vocabulary.of_codes(codes), Shape.of(config)
    text, embedding = (
        weights["encoder.embed_tokens.weight"],
        weights.first("decoder.embed_tokens.weight", "head.weight"),
    )
    bias = vocabulary.bias(embedding)
    assert bias is not None
    return Bart(
        Encoder(weights.under("encoder."), text, shape, int8=int8),
        Decoder(weights.under("decoder."), embedding, embedding, bias, shape, int8=int8),
        vocabulary,
    )
