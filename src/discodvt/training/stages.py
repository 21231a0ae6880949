"""What each stage trains: a model and the terms of its loss, in one module that the loop can run anywhere.

A stage's `forward` returns sums; the loop adds `weight * sum / count` over its terms. Being a module, a stage can be
wrapped whole for many processes (DDP, FSDP), whatever parts of its model it calls.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import BartForConditionalGeneration, PreTrainedModel

from discodvt.data.batches import Batch
from discodvt.model import DiscoDVT, PlanPrior
from discodvt.training import objectives


class Term(NamedTuple):
    """One term of a loss: its weight and what it is a mean over."""

    weight: float
    per: str  # tokens, stories, pairs or codes


class StageOutput(NamedTuple):
    """Sums of one micro-batch: the terms of the loss, and how often each code was chosen."""

    sums: dict[str, Tensor]
    code_counts: Tensor | None = None  # [K]
    hits: Tensor | None = None  # [2] marker labels predicted rightly, and all there were


class Stage(nn.Module):
    """A model under training. `unreached` names the parts its loss never touches: they are frozen."""

    terms: dict[str, Term]
    unreached: tuple[str, ...] = ()

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def freeze(self) -> list[str]:
        """Freeze what is not reached and list its parameters."""
        frozen = []
        for part in self.unreached:
            for name, parameter in self.model.get_submodule(part).named_parameters(prefix=part):
                parameter.requires_grad_(False)
                frozen.append(name)
        return frozen


class Text(Stage):
    """A BART that writes stories: `pretrain` (from corrupted ones) and `seq2seq` (from prompts)."""

    model: BartForConditionalGeneration
    terms = {"reconstruction": Term(1.0, "tokens")}  # noqa: RUF012

    def forward(self, batch: Batch, temperature: float | None = None, swap: bool = False) -> StageOutput:
        states = self.model.model(
            input_ids=batch["prompt_ids"],
            attention_mask=batch["prompt_mask"],
            decoder_input_ids=batch.get("decoder_ids", batch["story_ids"]),
            use_cache=False,
        ).last_hidden_state
        return StageOutput({"reconstruction": objectives.reconstruction(states, batch["labels"], self.model)})


class Plan(Stage):
    """A DiscoDVT that reads stories into codes and writes them back: `warm-start` and `reconstruct` (section 3.5)."""

    model: DiscoDVT

    def __init__(
        self,
        model: DiscoDVT,
        *,
        entropy: float,
        relation: float,
        batch_entropy: float = 0.0,
        position_entropy: float = 0.0,
        bag_of_words: float = 0.0,
    ) -> None:
        super().__init__(model)
        self.terms = {"reconstruction": Term(1.0, "tokens"), "entropy": Term(-entropy, "stories")}
        if batch_entropy > 0:
            self.terms["batch_entropy"] = Term(-batch_entropy, "stories")
        if position_entropy > 0:
            self.terms["position_entropy"] = Term(position_entropy, "stories")
        if bag_of_words > 0:
            self.terms["bag_of_words"] = Term(bag_of_words, "tokens")
        if relation > 0:
            self.terms["relation"] = Term(relation, "pairs")
        else:
            self.unreached = ("relation_head",)

    def forward(self, batch: Batch, temperature: float | None = None, swap: bool = False) -> StageOutput:
        """Without a temperature, at argmax codes; `swap` gives every story the plan of the next one in the batch."""
        model = self.model
        reading = model.read(batch["story_ids"], batch["story_mask"], temperature=temperature, noise=batch.get("noise"))
        latent = model.latent(reading.codes.roll(1, 0), reading.latent.shape[1]) if swap else reading.latent
        decoder_ids = batch.get("decoder_ids", batch["story_ids"])
        states = model.decode(
            batch["prompt_ids"], batch["prompt_mask"], decoder_ids, latent, use_cache=False
        ).last_hidden_state
        sums = {
            "reconstruction": objectives.reconstruction(states, batch["labels"], model.generator),
            "entropy": objectives.code_entropy(reading.probabilities, reading.mask).sum(),
        }
        if "batch_entropy" in self.terms:
            sums["batch_entropy"] = objectives.batch_entropy(reading.probabilities, reading.mask) * len(reading.codes)
        if "position_entropy" in self.terms:
            sums["position_entropy"] = objectives.position_entropy(reading.probabilities, reading.mask).sum()
        if "bag_of_words" in self.terms:
            sums["bag_of_words"] = objectives.reconstruction(latent, batch["labels"], model.generator)
        hits = None
        if "relation" in self.terms:
            logits = model.relation_head(latent, batch["pooling"], batch["pairs"])
            sums["relation"] = objectives.relation(logits, batch["relations"])
            hits = marker_hits(logits, batch["relations"])
        return StageOutput(sums, code_counts(reading.codes, model.config.num_codes), hits)


class Prior(Stage):
    """A PlanPrior that learns the argmax codes of stories (section 3.4)."""

    model: PlanPrior
    terms = {"prior": Term(1.0, "codes")}  # noqa: RUF012

    def forward(self, batch: Batch, temperature: float | None = None, swap: bool = False) -> StageOutput:
        logits = self.model(
            batch["prompt_ids"], batch["prompt_mask"], decoder_input_ids=batch["plan_ids"], use_cache=False
        ).logits
        return StageOutput({"prior": objectives.prior(logits, batch["labels"])})


@torch.no_grad()
def code_counts(codes: Tensor, vocabulary: int) -> Tensor:
    """How often each of K codes occurs [K]; the padding code is none."""
    return torch.bincount(codes.flatten(), minlength=vocabulary + 1)[:vocabulary]


@torch.no_grad()
def marker_hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Pairs joined by a marker whose label is the likeliest marker label, and all such pairs [2]; `unknown` is last."""
    unknown = logits.shape[-1] - 1
    labelled = labels < unknown
    right = logits[:, :unknown].argmax(-1) == labels
    return torch.stack([(right & labelled).sum(), labelled.sum()])
