"""Drawing the next symbol of each story, from its own random stream, whatever other stories are written beside it.

A draw is a race: symbol i of probability p_i arrives after an exponential time of mean 1 / p_i, the first one wins, and
wins with probability p_i. Its time comes from a hash of (stream, position, symbol), so no draw depends on another. When
rounding moves the probabilities by e, the winner changes with a probability of about e: a race is among the most stable
ways to draw, where cumulated probabilities would move by e at each of their hundreds of steps.

The nucleus is found among the few symbols above a probability; only where those do not reach it, the bar is lowered.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]

BARS = (1e-3, 1e-4, 1e-6, 0.0)  # probabilities above which to look, in turn; the last lets pass what is possible at all
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream_key(seed: int, index: int, prompt: str, purpose: str) -> int:
    """The key of a random stream: plan and text of a story have different ones, and so have different prompts."""
    return int.from_bytes(
        blake2b(f"{seed} {index} {purpose} {prompt}".encode(errors="replace"), digest_size=8).digest()
    )


def draw(
    logits: Floats,
    keys: Keys,
    positions: Ints,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Ints:
    """Logits [B, V], which are used up, keys and positions [B] to symbols [B]: top-k, then the nucleus, then min-p."""
    logits -= logits.max(axis=1, keepdims=True)
    if temperature != 1.0:
        logits /= np.float32(temperature)
    weights = np.exp(logits, out=logits)
    totals = weights.sum(axis=1).tolist()
    states = _mixed(keys + positions.astype(np.uint64) * _GOLDEN)
    nuclei = (_nucleus(row, total, top_k, top_p, min_p) for row, total in zip(weights, totals, strict=True))
    drawn = [_race(*nucleus, states[row : row + 1]) for row, nucleus in enumerate(nuclei)]
    return np.array(drawn, dtype=np.int64)


def _nucleus(weights: Floats, total: float, top_k: int, top_p: float, min_p: float) -> tuple[Ints, Floats]:
    """The symbols that may be drawn, likeliest first, and their shares; the one that crosses top-p is inside."""
    for bar in BARS if top_k or top_p < 1 else BARS[-1:]:
        symbols = np.flatnonzero(weights > bar * total)
        shares = weights[symbols] / total
        if len(symbols) >= top_k if top_k else shares.sum() >= top_p:
            break
    order = np.argsort(-shares)[: top_k or None]
    symbols, shares = symbols[order], shares[order]
    if top_k:
        shares /= shares.sum()
    inside = len(shares)
    if top_p < 1:
        inside = min(inside, int(np.searchsorted(np.cumsum(shares, dtype=np.float64), top_p)) + 1)
    if min_p > 0:
        inside = min(inside, int(np.count_nonzero(shares >= min_p * shares[0])))
    return symbols[:inside], shares[:inside]


def _race(symbols: Ints, shares: Floats, state: Keys) -> int:
    """The first symbol to arrive; its chance is output number `symbol` of SplitMix64 (Steele et al. 2014)."""
    if len(symbols) == 1:
        return int(symbols[0])
    bits = _mixed(state + (symbols.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    chances = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52  # in (0, 1)
    return int(symbols[(np.log(chances) / shares).argmax()])


def _mixed(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
