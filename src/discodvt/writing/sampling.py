"""Sampling parameters (defaults: the paper, 4.2), and sampling the next symbol of each row from its own random stream.

Sampling is an exponential race (the Gumbel-max trick): symbol i of probability p_i arrives after an exponential time of
mean 1 / p_i, and the first to arrive is taken, which happens with probability p_i. The time comes from a hash of
(stream, position, symbol), so no draw depends on another row or position. When rounding moves the probabilities by e,
the result changes with a probability of about e; inverting the cumulative distribution would multiply that by the size
of the nucleus.

The nucleus is searched among the symbols above a probability threshold, which is lowered where those do not reach it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from discodvt.errors import BadRequest

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

THRESHOLDS = (1e-3, 1e-4, 1e-6, 0.0)  # tried in turn; the last keeps every symbol of probability above zero
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SMALL, _LARGE = 1e-6, 1e6
MOST_WORDS = 100_000


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample. Lengths, temperatures and repetition penalty left None are the model's defaults."""

    top_p: float = 0.9  # nucleus sampling: the fewest tokens that together have this probability
    top_k: int = 0  # 0: off
    min_p: float = 0.0  # minimum probability relative to the likeliest token; 0: off
    temperature: float | None = None  # 0: greedy
    repetition_penalty: float | None = None  # 1: off
    greedy: bool = False
    min_tokens: int | None = None
    max_tokens: int | None = None
    min_codes: int | None = None
    max_codes: int | None = None
    plan_temperature: float | None = None  # plans are sampled without a nucleus; 0: greedy
    plan_strength: float | None = None  # what the latent is multiplied by; 0: the plan is not heard
    prompt_bias: float | None = None  # nats by which content words of the prompt are favoured (`prompt_words`); 0: off
    words: int | None = None  # about so many, in windows where the positions hold fewer (`long_story`)

    def __post_init__(self) -> None:
        self._check("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
        self._check("top_k", self.top_k >= 0, "0 (off) or more")
        self._check("min_p", 0 <= self.min_p < 1, "0 (off) or more, and below 1")
        penalty = self.repetition_penalty
        self._check("repetition_penalty", penalty is None or 0 < penalty < _LARGE, "above 0, up to a million")
        for name in ("temperature", "plan_temperature"):
            value = getattr(self, name)
            fine = value is None or value == 0 or _SMALL <= value < _LARGE  # logits over less are no numbers
            self._check(name, fine, "0 (greedy), or a millionth to a million")
        for name in ("plan_strength", "prompt_bias"):
            value = getattr(self, name)
            self._check(name, value is None or 0 <= value < _LARGE, "0 or more, and below a million")
        for least, most in (("min_tokens", "max_tokens"), ("min_codes", "max_codes")):
            low, high = getattr(self, least), getattr(self, most)
            self._check(least, low is None or low >= 0, "0 or more")
            self._check(most, high is None or high >= 1, "1 or more")
            if low is not None and high is not None and low > high:
                raise BadRequest(f"`{least}` {low} is above `{most}` {high}; make it at most that", (least, most))

        if self.words is not None:
            whole = isinstance(self.words, int) and 0 < self.words <= MOST_WORDS
            self._check("words", whole, f"a whole number, 1 to {MOST_WORDS:,}")
            for name in ("min_tokens", "max_tokens", "min_codes", "max_codes"):
                if getattr(self, name) is not None:
                    raise BadRequest(f"`words` and `{name}`: both say how long; leave one out", ("words", name))

    def _check(self, name: str, fine: bool, expected: str) -> None:
        if not fine:
            raise BadRequest(f"`{name}` {getattr(self, name)}: expected {expected}", name)

    def resolved(self, model_defaults: "SamplingParams") -> "SamplingParams":
        """The same with the model's own settings where none was given; greedy: temperature 0."""
        names = ("temperature", "repetition_penalty", "plan_temperature", "plan_strength", "prompt_bias")
        own = {name: getattr(model_defaults, name) for name in names if getattr(self, name) is None}
        return replace(self, **own | ({"temperature": 0.0} if self.greedy else {}))

    def for_plans(self) -> "SamplingParams":
        """How the codes of a plan are sampled."""
        temperature = 1.0 if self.plan_temperature is None else self.plan_temperature
        return SamplingParams(top_p=1.0, temperature=temperature, repetition_penalty=1.0)


def stream_key(seed: int, index: int, prompt: str, purpose: str) -> int:
    """The key of a random stream: plan and text of a story have different ones, and so have different prompts."""
    return int.from_bytes(
        blake2b(f"{seed} {index} {purpose} {prompt}".encode(errors="replace"), digest_size=8).digest()
    )


def sample(logits: Floats, keys: Keys, positions: Ints, params: Sequence[SamplingParams]) -> Ints:
    """Logits [B, V] (overwritten), stream keys and positions [B] and each row's params to symbols [B].

    Top-k, then top-p, then min-p; at temperature 0 the likeliest. Rows are handled together, and each as if alone.
    """
    temperatures = [each.temperature or 1.0 for each in params]
    rows = np.array([row for row, each in enumerate(params) if each.temperature != 0], dtype=np.int64)
    chosen: Ints = logits.argmax(axis=1) if len(rows) < len(params) else np.zeros(len(params), dtype=np.int64)
    if not len(rows):
        return chosen
    logits -= logits.max(axis=1, keepdims=True)
    if temperatures != [1.0] * len(params):
        logits /= np.array(temperatures, dtype=np.float32)[:, None]
    weights = np.exp(logits, out=logits)
    totals = weights.sum(axis=1, keepdims=True)
    states = _mixed(keys + positions.astype(np.uint64) * _GOLDEN)[:, None]
    limits = np.array([(each.top_k, each.top_p if each.top_p < 1 else 2.0, each.min_p) for each in params])
    for threshold in THRESHOLDS:
        part = slice(None) if len(rows) == len(params) else rows  # a slice copies nothing
        symbols, probs = _candidates(weights[part], totals[part], threshold)
        least, found = _least(probs, limits[part])
        if threshold == THRESHOLDS[-1]:
            found[:] = True
        chosen[rows[found]] = _race(symbols[found], probs[found], least[found], states[part][found])
        rows = rows[~found]
        if not len(rows):
            break
    return chosen


def _candidates(weights: Floats, totals: Floats, threshold: float) -> tuple[Ints, Floats]:
    """Symbols above a probability and their probabilities [R, C], filled up with 0."""
    rows, size = weights.shape
    places = np.flatnonzero(weights > threshold * totals)
    counts = np.diff(np.searchsorted(places, np.arange(rows + 1) * size))
    real = np.arange(max(1, counts.max())) < counts[:, None]
    symbols, probs = np.zeros(real.shape, dtype=np.int64), np.zeros(real.shape, dtype=np.float32)
    symbols[real], probs[real] = places % size, weights.ravel()[places]
    probs /= totals
    return symbols, probs


def _least(probs: Floats, limits: NDArray[np.float64]) -> tuple[Floats, NDArray[np.bool_]]:
    """Of candidates [R, C], the least probability that limits [R, 3] leave [R, 1]; whether they hold all of those [R].

    The symbol that crosses top-p is left, and those that are just as likely. Top-p is a share of what top-k leaves.
    """
    top_k, top_p, min_p = limits.T
    ranked = np.sort(probs, axis=1)[:, ::-1]
    summed = np.cumsum(ranked, axis=1, dtype=np.float64)
    row, last = np.arange(len(probs)), probs.shape[1] - 1
    found, ends = summed[:, -1] >= top_p, last
    if top_k.any():
        found = np.where(top_k > 0, np.count_nonzero(probs, axis=1) >= top_k, found)
        ends = np.where(top_k > 0, np.minimum(top_k - 1, last), last).astype(np.int64)
        top_p = np.where(top_k > 0, top_p * summed[row, ends], top_p)
    ends = np.minimum(np.count_nonzero(summed < top_p[:, None], axis=1), ends)
    least: Floats = np.maximum(ranked[row, ends], min_p * ranked[:, 0], dtype=np.float32)
    return np.maximum(least, np.finfo(np.float32).tiny)[:, None], found


def _race(symbols: Ints, probs: Floats, least: Floats, states: Keys) -> Ints:
    """The first symbol of each row to arrive; uniform numbers are outputs of SplitMix64 (Steele et al. 2014)."""
    inside = probs >= least
    bits = _mixed((states + (symbols.astype(np.uint64) + np.uint64(1)) * _GOLDEN)[inside])
    uniform = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52  # in (0, 1)
    arrival = np.full(probs.shape, -np.inf)
    arrival[inside] = np.log(uniform) / probs[inside]
    winners: Ints = symbols[np.arange(len(symbols)), arrival.argmax(axis=1)]
    return winners


def _mixed(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
