"""Loading a writer: a directory (or Hub repository) with a DiscoDVT and its `prior/`, or with a plain BART."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from discodvt.checkpoints import Checkpoint, Weights
from discodvt.errors import BadRequest
from discodvt.model.bottlenecks import load_code_book
from discodvt.writing.bart import Bart, Decoder, Encoder, Shape
from discodvt.writing.sampling import SamplingParams


class Latent:
    """A plan to the latent h^z: what `DiscoDVT.latent` computes, from bare weights (section 3.2)."""

    def __init__(self, weights: Weights, config: Mapping[str, Any]) -> None:
        conv_layers: int = config["conv_layers"]
        names = [f"up.convolutions.{number}" for number in range(conv_layers)]
        try:
            self._embedding = load_code_book(config, weights.__getitem__)  # the last row is the padding code
        except (KeyError, ValueError) as error:
            raise BadRequest(f"{weights.directory / 'config.json'}: {error}; copy the directory again") from None
        self._convolutions = [(weights[f"{name}.weight"], weights[f"{name}.bias"]) for name in names]
        self._projection = weights["up.projection.weight"], weights["up.projection.bias"]
        self.num_codes = len(self._embedding) - 1
        self.tokens_per_code = 2**conv_layers

    @torch.inference_mode()
    def __call__(self, plan: Sequence[int], length: int) -> Tensor:
        """Codes to h^z [length, D]; positions past the plan carry the latent of padding codes."""
        needed = -(-length // self.tokens_per_code) + 1  # one code beyond, so that the cut edge is never seen
        codes = [*plan, *[self.num_codes] * needed][:needed]
        states = F.embedding(torch.tensor(codes, device=self._embedding.device), self._embedding).t()[None]  # [1, E, L]
        for weight, bias in self._convolutions:
            states = F.relu(F.conv_transpose1d(states, weight, bias, stride=2, padding=1))
        return F.linear(states[0, :, :length].t(), *self._projection)


@dataclass(frozen=True, slots=True)
class LoadedWriter:
    """The parts of a writer. A plain BART has no latent, and without a latent there is no prior."""

    checkpoint: Checkpoint
    subwords: Tokenizer
    model_defaults: SamplingParams
    int8: bool
    generator: Bart
    latent: Latent | None
    prior: Bart | None


def load_writer(source: str | Path | None, device: torch.device, *, int8: bool) -> LoadedWriter:
    """Open a directory, a Hub id, or the storyteller that ships."""
    checkpoint = Checkpoint.open(source)
    directory, kind = checkpoint.directory, checkpoint.kind
    if kind == "discodvt-prior":
        raise BadRequest(f"{directory}: a prior alone; give the directory it lies in, which is the writer")
    if kind not in ("discodvt", "discodvt-cvae", "bart"):
        raise BadRequest(f"{directory}: no DiscoDVT and no BART; give a directory that `discodvt train` has written")
    config, weights, generation = checkpoint.config, checkpoint.weights(device), checkpoint.generation
    if "decoder_layers" not in checkpoint.backbone:
        raise BadRequest(f"{directory}: its backbone is no BART, which no engine here can write with")
    generator = _generator(weights.under("" if kind == "bart" else "generator."), checkpoint.backbone, int8)
    latent = Latent(weights, config) if kind == "discodvt" else None
    prior = None
    if latent is not None and checkpoint.prior is not None:
        codes = checkpoint.prior.config
        if codes.get("num_codes") != latent.num_codes:
            raise BadRequest(f"{directory / 'prior'}: the prior of another model; train the `prior` stage on this one")
        prior = _prior(checkpoint.prior.weights(device), codes, int8)
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
