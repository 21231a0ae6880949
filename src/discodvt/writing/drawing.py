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

Logits = NDArray[np.float32]
Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]

BARS = (1e-3, 1e-4, 1e-6, -1.0)  # probabilities above which to look, in turn; the last lets every symbol pass
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def stream_key(seed: int, index: int, purpose: str) -> int:
    """The key of a random stream: plan and text of a story have different ones."""
    return int.from_bytes(blake2b(f"{seed} {index} {purpose}".encode(), digest_size=8).digest())


def draw(
    logits: Logits,
    keys: Keys,
    positions: Rows,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> Rows:
    """Logits [B, V], which are used up, keys and positions [B] to symbols [B]: top-k, then the nucleus, then min-p."""
    logits -= logits.max(axis=1, keepdims=True)
    if temperature != 1.0:
        logits /= np.float32(temperature)
    weights = np.exp(logits, out=logits)
    totals = weights.sum(axis=1)
    drawn = np.empty(len(weights), dtype=np.int64)
    left = np.arange(len(weights))
    for bar in BARS if top_k or top_p < 1 else BARS[-1:]:
        symbols, shares = _above(weights, totals, left, bar)
        enough = np.count_nonzero(shares, axis=1) >= top_k if top_k else shares.sum(axis=1) >= top_p
        if bar < 0:
            enough[:] = True
        rows = left[enough]
        if rows.size:
            kept = _nucleus(shares[enough], top_k, top_p, min_p)
            drawn[rows] = _race(symbols[enough], kept, keys[rows], positions[rows])
        left = left[~enough]
        if not left.size:
            break
    return drawn


def _above(weights: Logits, totals: Logits, rows: Rows, bar: float) -> tuple[Rows, NDArray[np.float64]]:
    """The symbols of some rows whose share is above the bar, and these shares, both [R, n], in falling order.

    Rows shorter than the longest end in shares of 0.
    """
    passing = np.flatnonzero(weights[rows] > (bar * totals[rows])[:, None])  # ten times as fast as `nonzero`
    at, found = np.divmod(passing, weights.shape[1])
    counts = np.bincount(at, minlength=len(rows))
    columns = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
    symbols = np.zeros((len(rows), int(counts.max())), dtype=np.int64)
    shares = np.zeros(symbols.shape)
    symbols[at, columns] = found
    shares[at, columns] = weights[rows[at], found] / totals[rows[at]]
    order = np.argsort(-shares, axis=1)
    every = np.arange(len(rows))[:, None]
    return symbols[every, order], shares[every, order]


def _nucleus(shares: NDArray[np.float64], top_k: int, top_p: float, min_p: float) -> NDArray[np.float64]:
    """Shares [R, n] in falling order, 0 outside top-k, the nucleus (the one that crosses top-p is inside) and min-p."""
    shares = shares.copy()
    if top_k:
        shares[:, top_k:] = 0.0
        shares /= shares.sum(axis=1, keepdims=True)
    if top_p < 1:
        shares[:, 1:][np.cumsum(shares, axis=1)[:, :-1] >= top_p] = 0.0
    shares[shares < min_p * shares[:, :1]] = 0.0
    return shares


def _race(symbols: Rows, shares: NDArray[np.float64], keys: Keys, positions: Rows) -> Rows:
    """The first symbol to arrive in each row."""
    widest = int(np.count_nonzero(shares, axis=1).max())
    symbols, shares = symbols[:, :widest], shares[:, :widest]
    with np.errstate(divide="ignore"):
        times = -np.log(_uniforms(keys, positions, symbols)) / shares  # infinite where the share is 0
    winners: Rows = symbols[np.arange(len(symbols)), times.argmin(axis=1)]
    return winners


def _uniforms(keys: Keys, positions: Rows, symbols: Rows) -> NDArray[np.float64]:
    """Numbers in (0, 1) [B, n]: for symbol i, output i of a SplitMix64 generator (Steele et al. 2014)."""
    states = _mixed(keys + positions.astype(np.uint64) * _GOLDEN)
    bits = _mixed(states[:, None] + (symbols.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _mixed(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
