"""The models a study opens: a DiscoDVT, its prior, a plain BART beside it; and how long its prompts and stories are."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import BartForConditionalGeneration, PreTrainedTokenizerBase

from discodvt.artefacts import MANIFEST, file_hash
from discodvt.checkpoints import Checkpoint, best_device
from discodvt.errors import BadRequest
from discodvt.model import DiscoDVT, PlanPrior

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Planner:
    """A DiscoDVT with its tokenizer, and how much of a prompt and of a story it was trained to read."""

    name: str
    model: DiscoDVT
    tokenizer: PreTrainedTokenizerBase
    prompt_tokens: int
    story_tokens: int
    device: torch.device

    @property
    def shape(self) -> dict[str, Any]:
        """What a reader of the figures wants to know of it."""
        config = self.model.config
        return {
            "name": self.name,
            "conv_layers": config.conv_layers,
            "tokens_per_code": config.tokens_per_code,
            "codes": config.num_codes,
            "bottleneck": config.bottleneck,
            "parameters": self.model.num_parameters(),
            "prompt_tokens": self.prompt_tokens,
            "story_tokens": self.story_tokens,
        }


def open_planner(source: Path, *, prompt_tokens: int | None = None, story_tokens: int | None = None) -> Planner:
    """Open a checkpoint; lengths not given are those of its training, else those kept with it."""
    device, checkpoint = best_device(), Checkpoint.open(source)
    model = checkpoint.load(DiscoDVT, device=device)
    data, kept = trained_with(source).get("data", {}), checkpoint.lengths

    def length(name: str, given: int | None, own: int, room: int) -> int:
        told: int = given or data.get(name) or own
        if told > room:
            raise BadRequest(f"`{name}` {told}: {source} has {kept.positions} positions; give fewer", parameter=name)
        return told

    return Planner(
        source.name,
        model,
        checkpoint.tokenizer(),
        device=device,
        prompt_tokens=length("prompt_tokens", prompt_tokens, kept.prompt_tokens, kept.positions - 2),
        story_tokens=length("story_tokens", story_tokens, kept.max_tokens, kept.positions),
    )


def open_plain(source: Path, beside: Planner) -> BartForConditionalGeneration:
    """A plain BART whose losses are compared token by token, so its subwords must be the same."""
    same_subwords(source, beside)
    model: BartForConditionalGeneration = Checkpoint.open(source).load(
        BartForConditionalGeneration, device=beside.device
    )
    return model


def open_prior(source: Path, beside: Planner) -> PlanPrior:
    prior: PlanPrior = Checkpoint.open(source).load(PlanPrior, device=beside.device)
    if prior.config.num_codes != beside.model.config.num_codes:
        raise BadRequest(
            f"{source}: a prior over {prior.config.num_codes} codes, {beside.name} has {beside.model.config.num_codes}"
        )
    return prior


def same_subwords(source: Path, beside: Planner) -> None:
    """Refuse a checkpoint that cuts stories into other subwords: neither losses nor pairs would be comparable."""
    if Checkpoint.open(source).tokenizer().get_vocab() != beside.tokenizer.get_vocab():
        raise BadRequest(f"{source}: its subwords are not those of {beside.name}; compare models of one tokenizer")


def trained_with(source: Path) -> dict[str, Any]:
    """The recipe a training run was made with, or nothing where there is no run around the checkpoint."""
    return dict(_manifest(source).get("config", {}))


def trained_on(source: Path, file: Path) -> bool:
    """Whether a training run read this very file."""
    return file_hash(file) in _manifest(source).get("inputs", {}).values()


def check_prior(prior: Path, checkpoint: Path) -> None:
    """Refuse a prior that lies beside another DiscoDVT: it learned that one's plans, whose codes mean other things."""
    beside = prior.resolve().parent / WEIGHTS
    if beside.is_file() and file_hash(beside) != file_hash(weights_of(checkpoint)):
        raise BadRequest(
            f"{prior}: learned the plans of {beside.parent.name}, another model than {checkpoint}; give its own prior"
        )


def weights_of(source: Path) -> Path:
    """The file that stands for a checkpoint in a manifest."""
    path = Checkpoint.open(source).directory / WEIGHTS
    if not path.is_file():
        raise BadRequest(f"{source}: no {WEIGHTS}; give the directory of a trained model")
    return path


def _manifest(source: Path) -> dict[str, Any]:
    path = source / MANIFEST
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
