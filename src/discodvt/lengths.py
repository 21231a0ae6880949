"""How long prompts, stories and plans of a model may be: its own lengths, and what is asked for instead."""

from dataclasses import dataclass
from typing import Any

from discodvt.errors import BadRequest

_PAPER_MIN_TOKENS, PAPER_MAX_TOKENS = 100, 512


@dataclass(frozen=True, slots=True)
class Lengths:
    """A model's own lengths: subwords of a prompt, subwords of a story, codes of a plan.

    A model keeps them in `generation_config.json`: `min_new_tokens`, `max_new_tokens` (the prior's count codes) and
    `prompt_tokens`. Else a story may be as long as those the prior was trained on, without a prior 512, and at least
    the paper's share of that, 100 of 512; a plan has 1 to `max_codes` codes. A prompt fills the positions of an
    encoder; a causal model has one sequence of positions for prompt and story.
    """

    prompt_tokens: int
    positions: int  # of a story, its start symbol included
    min_tokens: int
    max_tokens: int
    min_codes: int = 0
    max_codes: int = 0  # 0: there is no prior
    shared: int = 0  # the positions of a causal model, which prompt and story share; 0: an encoder-decoder

    @classmethod
    def kept(
        cls,
        positions: int,
        generator: dict[str, Any],
        *,
        prior: dict[str, Any],
        max_codes: int,
        tokens_per_code: int,
        shared: bool = False,
    ) -> "Lengths":
        """From a model's shape and the generation settings kept with it; `max_codes` 0: no prior."""
        kept, whole = generator.get("prompt_tokens"), positions
        prompt = min(kept or positions, positions - 2)
        positions = positions - prompt - 1 if shared and kept else positions
        longest = min(positions, generator.get("max_new_tokens") or max_codes * tokens_per_code or PAPER_MAX_TOKENS)
        least = generator.get("min_new_tokens")
        most_codes = min(prior.get("max_new_tokens") or max_codes, max_codes)
        return cls(
            prompt_tokens=prompt,
            positions=positions,
            min_tokens=min(longest, longest * _PAPER_MIN_TOKENS // PAPER_MAX_TOKENS if least is None else least),
            max_tokens=longest,
            min_codes=min(prior.get("min_new_tokens") or 1, most_codes),
            max_codes=most_codes,
            shared=whole if shared else 0,
        )

    def problem(self, prompt_tokens: int, story_tokens: int) -> str | None:
        """Why prompts and stories of these lengths do not fit into the model, if they do not."""
        room = self.shared or self.positions
        needed = prompt_tokens + 1 + story_tokens if self.shared else max(story_tokens, prompt_tokens + 2)
        return None if needed <= room else f"need {needed} positions, the model has {room}; set them lower"

    def tokens(self, low: int | None, high: int | None) -> tuple[int, int]:
        """The least and the most subwords of a story where these are asked for; the end does not count."""
        return _chosen("tokens", low, high, own=(self.min_tokens, self.max_tokens), room=self.positions)

    def codes(self, low: int | None, high: int | None) -> tuple[int, int]:
        """The least and the most codes of a plan where these are asked for; an empty plan is none."""
        least, most = _chosen("codes", low, high, own=(self.min_codes, self.max_codes), room=self.max_codes)
        return max(least, 1), most


def _chosen(unit: str, low: int | None, high: int | None, *, own: tuple[int, int], room: int) -> tuple[int, int]:
    """The least and the most that is asked for, else the model's own, which gives way to what is asked for."""
    most = own[1] if high is None else high
    if most > room:
        limit = f"the model has at most {room} positions for them"
        raise BadRequest(f"`max_{unit}` {high}: {limit}; ask for fewer", parameter=f"max_{unit}")
    if low is not None and low > most:
        raise BadRequest(
            f"`min_{unit}` {low} is above the model's `max_{unit}` {most}; ask for fewer, or set `max_{unit}`",
            parameter=(f"min_{unit}", f"max_{unit}"),
        )
    return min(own[0], most) if low is None else low, most
