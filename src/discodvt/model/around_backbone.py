"""What models around a language model share: its symbols and embeddings, and what they do before `generate`.

`GenerationMixin.generate` is transformers'; here the lengths of a call are settled, and plans that are none refused.
"""

from copy import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    PreTrainedModel,
    RepetitionPenaltyLogitsProcessor,
)

from discodvt.data.subwords import Symbols
from discodvt.errors import BadRequest
from discodvt.model.backbones import Backbone


class AroundBackbone(PreTrainedModel, GenerationMixin):
    """A `generator` (the language model), a `posterior` that reads stories, and the `backbone` that knows how."""

    backbone: Backbone
    generator: PreTrainedModel
    posterior: PreTrainedModel
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _keys_to_ignore_on_load_missing = [r"generator\.final_logits_bias"]  # noqa: RUF012 (the type transformers declares)

    @property
    def symbols(self) -> Symbols:
        """The symbols around prompts and stories."""
        return self.backbone.symbols

    def get_input_embeddings(self) -> nn.Module:
        embeddings: nn.Module = self.generator.get_input_embeddings()
        return embeddings

    def get_output_embeddings(self) -> nn.Module:
        head: nn.Module = self.generator.get_output_embeddings()
        return head

    @torch.no_grad()
    def fitted_scale(self) -> float:
        """What brings the posterior's states to size 1, which differs between backbones.

        Where it ends in a norm of large weights, codes would be certain before they have learned anything.
        """
        shape: Any = self.config
        drawn = torch.randint(shape.backbone.vocab_size, (4, 64), generator=torch.Generator().manual_seed(0))
        ids, was_training = drawn.to(self.device), self.posterior.training
        states = self.backbone.read(self.posterior.eval(), ids, torch.ones_like(ids))
        self.posterior.train(was_training)
        return 1 / float(states.float().square().mean().sqrt().clamp(min=1e-6))


def keep_settings(own: GenerationConfig, symbols: Symbols, **more: Any) -> None:
    """The symbols of a model and how the paper draws from it, where `generate` looks for them; no end is forced."""
    own.update(
        bos_token_id=symbols.story_start,
        decoder_start_token_id=symbols.story_start,
        eos_token_id=symbols.story_end,
        pad_token_id=symbols.pad,
        forced_eos_token_id=None,
        do_sample=True,
        top_k=0,
        **more,
    )


def settle_lengths(own: GenerationConfig, arguments: dict[str, Any], *, given: int, room: int) -> int:
    """Turn whatever lengths a call of `generate` names into `max_new_tokens` and `min_new_tokens`, and return the most.

    transformers warns about two lengths where a model keeps one kind and the caller names the other. The caller's come
    first, then those of a `generation_config` of theirs, then the model's `own`; without any, the most is `room`.
    `given` symbols are there before the first new one.
    """
    if own.max_length is not None:  # kept by older checkpoints: beside max_new_tokens, or as the room there is
        if own.max_new_tokens is None and own.max_length < given + room:
            own.max_new_tokens = own.max_length - given
        own.max_length = None
    theirs = arguments.get("generation_config")
    settled: dict[str, int] = {}
    for least_or_most in ("max", "min"):
        for source in (arguments, vars(theirs) if theirs is not None else {}, vars(own)):
            new, length = source.get(f"{least_or_most}_new_tokens"), source.get(f"{least_or_most}_length")
            if new is None and length:
                new = max(0, length - given)
            if new is not None:
                settled[f"{least_or_most}_new_tokens"] = new
                break
    settled["max_new_tokens"] = min(settled.get("max_new_tokens", room), room)
    for name in ("max_length", "min_length"):
        arguments.pop(name, None)
    if theirs is None:
        arguments |= settled
    else:  # one object says it all: transformers warns about arguments beside it
        arguments["generation_config"] = theirs = copy(theirs)
        theirs.update(max_length=None, min_length=None, **settled)
        for name in settled:
            arguments.pop(name, None)
    return settled["max_new_tokens"]


def check_plan(plan: Tensor, codes: int) -> None:
    """Refuse a plan [B, L] that holds anything but codes, each row followed by padding codes (number K) at most."""
    if plan.ndim != 2 or plan.is_floating_point():
        raise BadRequest(f"`plan`: {plan.dtype} of shape {list(plan.shape)}; give codes [B, L]", parameter="plan")
    padding = plan == codes
    wrong = plan[((plan < 0) | (plan > codes)) | (padding & ((~padding).flip(1).cumsum(1).flip(1) > 0))]
    if len(wrong):
        raise BadRequest(
            f"`plan`: {int(wrong[0])} is no code; give numbers from 0 to {codes - 1}, shorter plans filled up at their "
            f"end with {codes}, and without the begin and end marks of a prior",
            parameter="plan",
        )
    if plan.shape[1] == 0 or bool(padding.all(1).any()):
        raise BadRequest("`plan`: a plan without codes; give one or more to each story", parameter="plan")


def penalise_stories_alone(own: GenerationConfig, arguments: dict[str, Any], *, prompt: int) -> None:
    """Have the repetition penalty of a call of `generate` spare what only the prompt has, as encoder-decoders do.

    `prompt` symbols come before the story's own; call it after `settle_lengths`.
    """
    theirs = arguments.get("generation_config")
    asked = arguments.get("repetition_penalty")
    penalty = (own if theirs is None else theirs).repetition_penalty if asked is None else asked
    if penalty is None or penalty == 1.0:
        return
    processor = RepetitionPenaltyLogitsProcessor(penalty, prompt_ignore_length=prompt)
    arguments["logits_processor"] = LogitsProcessorList([processor, *arguments.get("logits_processor", ())])
    if theirs is None:
        arguments["repetition_penalty"] = 1.0
    else:
        theirs.update(repetition_penalty=1.0)
        arguments.pop("repetition_penalty", None)
