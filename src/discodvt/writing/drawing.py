"""Drawing the next symbol of each story, from its own random stream, whatever other stories are written beside it.

A draw is a race: symbol i of probability p_i arrives after an exponential time of mean 1 / p_i, the first one wins, and
wins with probability p_i. Its time comes from a hash of (stream, position, symbol), so no draw depends on another. When
rounding moves the probabilities by e, the winner changes with a probability of about e: a race is among the most stable
ways to draw, where cumulated probabilities would move by e at each of their hundreds of steps.

The nucleus is found among the few hundred likeliest symbols; only where those do not reach it, among more.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Keys = NDArray[np.uint64]

FIRST_LOOK = 256  # nuclei of trained models are seldom larger
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream_key(seed: int, index: int, purpose: str) -> int:
    """The key of a random stream: plan and text of a story have different ones."""
    return int.from_bytes(blake2b(f"{seed} {index} {purpose}".encode(), digest_size=8).digest())


def draw(
    logits: Logits,
    keys: Keys,
    positions: NDArray[np.int64],
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> NDArray[np.int64]:
    """Logits [B, V], stream keys [B] and positions [B] to symbols [B]: top-k, then the nucleus, then min-p."""
    peaks = logits.max(axis=1, keepdims=True)
    weights = np.exp((logits - peaks) / np.float32(temperature))  # [B, V], the likeliest has 1
    symbols, shares = _nucleus(weights, top_k, top_p)
    shares = np.where(shares >= min_p * shares[:, :1], shares, 0.0)
    with np.errstate(divide="ignore"):
        times = -np.log(_uniforms(keys, positions, symbols)) / shares  # infinite outside the nucleus
    winners = times.argmin(axis=1)
    drawn: NDArray[np.int64] = symbols[np.arange(len(symbols)), winners]
    return drawn


def _nucleus(weights: Logits, top_k: int, top_p: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The likeliest symbols [B, n] in falling order, and their shares, 0 outside the nucleus."""
    vocabulary = weights.shape[1]
    look = min(vocabulary, top_k or (FIRST_LOOK if top_p < 1 else vocabulary))
    while True:
        symbols, found = _largest(weights, look)
        shares = found.astype(np.float64)
        shares /= shares.sum(axis=1, keepdims=True) if top_k else weights.sum(axis=1, keepdims=True, dtype=np.float64)
        reached = np.cumsum(shares, axis=1)
        if top_k or look == vocabulary or (reached[:, -1] >= top_p).all():
            break
        look = min(vocabulary, 8 * look)
    if top_p < 1:
        shares[:, 1:][reached[:, :-1] >= top_p] = 0.0  # the one that crosses the line is the last inside
    widest = int(np.count_nonzero(shares, axis=1).max())
    return symbols[:, :widest], shares[:, :widest]


def _largest(weights: Logits, count: int) -> tuple[NDArray[np.int64], Logits]:
    """The `count` largest of each row, in falling order, without sorting the rest."""
    if count < weights.shape[1]:
        symbols = np.argpartition(weights, -count, axis=1)[:, -count:]
        found = np.take_along_axis(weights, symbols, axis=1)
    else:
        symbols, found = np.broadcast_to(np.arange(weights.shape[1]), weights.shape), weights
    order = np.argsort(-found, axis=1)
    return np.take_along_axis(symbols, order, axis=1), np.take_along_axis(found, order, axis=1)


def _uniforms(keys: Keys, positions: NDArray[np.int64], symbols: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers in (0, 1) [B, n]: for symbol i, output i of a SplitMix64 generator (Steele et al. 2014)."""
    states = _mixed(keys + positions.astype(np.uint64) * _GOLDEN)
    bits = _mixed(states[:, None] + (symbols.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _mixed(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
