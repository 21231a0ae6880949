"""Maximum spanning trees with one root (Chu-Liu/Edmonds) for small dense score matrices. Reads and writes nothing."""

import numpy as np


def cycle_in(heads: np.ndarray) -> list[int]:
    """One cycle among 1-based head pointers (0 is the root), or an empty list."""
    state = np.zeros(len(heads), dtype=int)
    state[0] = 2
    for start in range(1, len(heads)):
        path, node = [], start
        while state[node] == 0:
            state[node] = 1
            path.append(node)
            node = heads[node]
        if state[node] == 1:
            return path[path.index(node) :]
        state[path] = 2
    return []


def arborescence(scores: np.ndarray) -> np.ndarray:
    """Heads of the best tree rooted in 0; `scores[dependent, head]`."""
    scores = scores.copy()
    np.fill_diagonal(scores, -np.inf)
    heads = scores.argmax(1)
    heads[0] = 0
    cycle = cycle_in(heads)
    if not cycle:
        return heads
    rest = [i for i in range(len(scores)) if i not in set(cycle)]
    inside = scores[cycle, heads[cycle]]
    small = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    small[:-1, :-1] = scores[np.ix_(rest, rest)]
    leaving = scores[np.ix_(rest, cycle)]
    small[:-1, -1] = leaving.max(1)
    entering = scores[np.ix_(cycle, rest)] - inside[:, None]
    small[-1, :-1] = entering.max(0)
    found = arborescence(small)
    for i, node in enumerate(rest[1:], 1):
        heads[node] = cycle[leaving[i].argmax()] if found[i] == len(rest) else rest[found[i]]
    outer = found[-1]
    heads[cycle[entering[:, outer].argmax()]] = rest[outer]
    return heads


def decode(scores: np.ndarray) -> list[int]:
    """Heads of the words 1..n of the best tree with exactly one child of the root."""
    heads = arborescence(scores)
    if (heads[1:] == 0).sum() == 1:
        return heads[1:].tolist()
    best, best_score = heads, -np.inf
    for root in np.flatnonzero(heads[1:] == 0) + 1:
        limited = scores.copy()
        limited[1:, 0] = -np.inf
        limited[root, 0] = 0.0
        tree = arborescence(limited)
        score = limited[np.arange(1, len(tree)), tree[1:]].sum() + scores[root, 0]
        if score > best_score:
            best, best_score = tree, score
    return best[1:].tolist()
