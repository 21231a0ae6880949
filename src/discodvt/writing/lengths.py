"""How long stories and plans may be when nobody says.

A model may keep its own lengths where Hugging Face keeps them: `min_new_tokens` and `max_new_tokens` in the
`generation_config.json` of the generator (subwords) and of the prior (codes), and `prompt_tokens` in the generator's.
Else a story may be as long as those the prior was trained on (its `max_codes` times the tokens of a code: 512 at paper
scale), without a prior 512; its least length is the paper's share of that, 100 of 512; a plan has 1 to `max_codes`
codes; a prompt fills the encoder's positions. No length exceeds the positions of the model. A `temperature` and a
`repetition_penalty` kept in the same file are the model's own as well; else they are the paper's, 1 and none.
"""

from dataclasses import dataclass
from typing import Any

from discodvt.errors import BadRequest
from discodvt.writing.sampling import SamplingParams

PAPER_MIN_TOKENS, PAPER_MAX_TOKENS = 100, 512


@dataclass(frozen=True, slots=True)
class Lengths:
    """A model's own lengths: subwords of a prompt, subwords of a story, codes of a plan."""

    prompt_tokens: int
    positions: int
    min_tokens: int
    max_tokens: int
    min_codes: int = 0
    max_codes: int = 0  # 0: there is no prior

    def tokens(self, params: SamplingParams) -> tuple[int, int]:
        """The least and the most subwords of a story; the end does not count."""
        if (params.max_tokens or 0) > self.positions:
            raise BadRequest(f"max_tokens {params.max_tokens}: the model has {self.positions} positions; ask for fewer")
        return _chosen("tokens", params.min_tokens, params.max_tokens, self.min_tokens, self.max_tokens)

    def codes(self, params: SamplingParams) -> tuple[int, int]:
        """The least and the most codes of a plan."""
        if (params.max_codes or 0) > self.max_codes:
            raise BadRequest(f"max_codes {params.max_codes}: the prior writes at most {self.max_codes}; ask for fewer")
        low, high = _chosen("codes", params.min_codes, params.max_codes, self.min_codes, self.max_codes)
        return max(low, 1), high  # an empty plan is none


def model_lengths(
    positions: int, generator: dict[str, Any], *, prior: dict[str, Any], max_codes: int, tokens_per_code: int
) -> Lengths:
    """The lengths of a model from its shape and the generation settings kept with it; `max_codes` 0: no prior."""
    longest = min(positions, generator.get("max_new_tokens") or max_codes * tokens_per_code or PAPER_MAX_TOKENS)
    least = generator.get("min_new_tokens")
    most_codes = min(prior.get("max_new_tokens") or max_codes, max_codes)
    return Lengths(
        prompt_tokens=min(generator.get("prompt_tokens") or positions, positions - 2),  # <s> and </s>
        positions=positions,
        min_tokens=min(longest, longest * PAPER_MIN_TOKENS // PAPER_MAX_TOKENS if least is None else least),
        max_tokens=longest,
        min_codes=min(prior.get("min_new_tokens") or 1, most_codes),
        max_codes=most_codes,
    )


def _chosen(unit: str, low: int | None, high: int | None, own_low: int, own_high: int) -> tuple[int, int]:
    """What was asked for, else the model's own, which gives way to what was asked for."""
    most = own_high if high is None else high
    if low is not None and low > most:
        raise BadRequest(f"min_{unit} {low} is above the model's max_{unit} {most}; ask for fewer, or set max_{unit}")
    return min(own_low, most) if low is None else low, most
