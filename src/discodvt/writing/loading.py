"""Loading a writer: a directory (or Hub repository) with a DiscoDVT and its `prior/`, or with a plain BART."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

import discodvt
from discodvt.errors import BadRequest
from discodvt.writing.bart import Bart, Decoder, Encoder, Shape
from discodvt.writing.latent import Latent
from discodvt.writing.lengths import Lengths, model_lengths
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.weights import Weights, read_settings

STORYTELLER = Path(discodvt.__file__).parent / "assets" / "storyteller"
_FILES = ["*.json", "*.txt", "*.safetensors"]


@dataclass(frozen=True, slots=True)
class LoadedWriter:
    """The parts of a writer. A plain BART has no latent, and without a latent there is no prior."""

    name: str
    directory: Path
    subwords: Tokenizer
    lengths: Lengths
    model_defaults: SamplingParams
    int8: bool
    generator: Bart
    latent: Latent | None
    prior: Bart | None


def load_writer(source: str | Path | None, device: torch.device, *, int8: bool) -> LoadedWriter:
    """Open a directory, a Hub id, or the storyteller that ships."""
    directory, name = _located(source)
    config = read_settings(directory / "config.json")
    kind = config.get("model_type")
    if kind == "discodvt-prior":
        raise BadRequest(f"{directory}: a prior alone; give the directory it lies in, which is the writer")
    if kind not in ("discodvt", "bart"):
        raise BadRequest(f"{directory}: no DiscoDVT and no BART; give a directory that `discodvt train` has written")
    weights = Weights(directory, device)
    generator = _generator(weights.under("generator." if kind == "discodvt" else ""), config, int8)
    latent = None
    if kind == "discodvt":
        latent = Latent(weights, config)
    prior, codes = None, {}
    if latent is not None and (directory / "prior" / "config.json").exists():
        codes = read_settings(directory / "prior" / "config.json")
        if codes.get("num_codes") != latent.num_codes:
            raise BadRequest(f"{directory / 'prior'}: the prior of another model; train the `prior` stage on this one")
        prior = _prior(Weights(directory / "prior", device), codes, int8)
    generation = read_settings(directory / "generation_config.json")
    lengths = model_lengths(
        len(generator.decoder.positions),
        generation,
        prior=read_settings(directory / "prior" / "generation_config.json"),
        max_codes=codes.get("max_codes", 0),
        tokens_per_code=latent.tokens_per_code if latent else 0,
    )
    return LoadedWriter(
        name=name,
        directory=directory,
        subwords=_subwords(directory),
        lengths=lengths,
        model_defaults=SamplingParams(
            temperature=generation.get("temperature") or 1.0,
            repetition_penalty=generation.get("repetition_penalty") or 1.0,
        ),
        int8=int8,
        generator=generator,
        latent=latent,
        prior=prior,
    )


def _generator(weights: Weights, config: dict[str, Any], int8: bool) -> Bart:
    """A BART; Hugging Face's own checkpoints leave the `model.` out. Stories start with `<s>`, as in training."""
    prefix = "model." if "model.decoder.embed_positions.weight" in weights else ""
    tied = (f"{prefix}shared.weight", f"{prefix}decoder.embed_tokens.weight")
    embedding, head = weights.first(*tied), weights.first("lm_head.weight", *tied)
    bias = weights["final_logits_bias"][0] if "final_logits_bias" in weights else head.new_zeros(len(head))
    shape = Shape.of(config)
    return Bart(
        encoder=Encoder(weights.under(f"{prefix}encoder."), embedding, shape, int8=int8),
        decoder=Decoder(weights.under(f"{prefix}decoder."), embedding, head, bias, shape, int8=int8),
        start=config.get("bos_token_id", 0),
        end=config.get("eos_token_id", 2),
    )


def _prior(weights: Weights, config: dict[str, Any], int8: bool) -> Bart:
    """A prior: its encoder reads subwords, its decoder writes codes, of which bos (K) and pad (K + 2) are none."""
    text, codes = weights["encoder.embed_tokens.weight"], weights.first("decoder.embed_tokens.weight", "head.weight")
    start, end, pad = (config["num_codes"] + special for special in range(3))
    bias = codes.new_zeros(len(codes))
    bias[[start, pad]] = float("-inf")
    shape = Shape.of(config)
    return Bart(
        encoder=Encoder(weights.under("encoder."), text, shape, int8=int8),
        decoder=Decoder(weights.under("decoder."), codes, codes, bias, shape, int8=int8),
        start=start,
        end=end,
    )


def _subwords(directory: Path) -> Tokenizer:
    """The tokenizer, without the layers transformers puts around it."""
    path = directory / "tokenizer.json"
    if path.exists():
        tokenizer = Tokenizer.from_file(str(path))
    else:
        from discodvt.data.subwords import open_tokenizer

        tokenizer = open_tokenizer(directory).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _located(source: str | Path | None) -> tuple[Path, str]:
    """The directory of a writer and the name its stories carry."""
    if source is None:
        if not (STORYTELLER / "config.json").exists():
            raise BadRequest("the storyteller is not part of this installation; name a model (--model DIR)")
        return STORYTELLER, STORYTELLER.name
    directory, name = Path(source).expanduser(), str(source)
    if directory.is_dir():
        if not (directory / "config.json").exists():
            raise BadRequest(f"{directory}: no config.json in it; give a directory that `discodvt train` has finished")
        return directory, directory.resolve().name
    if directory.exists() or isinstance(source, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise BadRequest(f"{name}: no such directory; give one that `discodvt train` has written, or a Hub id")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_FILES)), name
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "no answer")
        raise BadRequest(f"{name}: neither a directory nor a model on the Hub that can be reached ({reason})") from None
