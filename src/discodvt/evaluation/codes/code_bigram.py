"""The two models of codes a prior has to beat: a unigram, and a bigram smoothed towards it, fitted on training plans.

Both know codes only, no end of plan. The bigram is (count(a, b) + k p(b)) / (count(a) + k) with the unigram p, a
Dirichlet prior of strength k (MacKay & Peto 1995); the first code of a plan follows a beginning of its own. The
strengths are chosen on every tenth training plan and the tables then fitted on all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from discodvt.data.tokens import Ragged
from discodvt.errors import BadRequest
from discodvt.evaluation.metric import Floats, Ints

STRENGTHS = tuple(float(2**power) for power in range(-10, 14))
HELD_OUT = 10  # every tenth plan chooses the strength


@dataclass(frozen=True, slots=True)
class CodeModel:
    """p(next code | code before) as a table [K + 1, K]; row K is the beginning of a plan."""

    table: Floats
    strength: float

    def losses(self, plans: Ragged) -> Floats:
        """-log p of each plan [N]."""
        before = _before(plans, self.table.shape[1])
        story = np.repeat(np.arange(len(plans)), plans.lengths)
        nats = -np.log(self.table[before, plans.values])
        return np.bincount(story, nats, minlength=len(plans)).astype(np.float64)


def unigram(plans: Ragged, vocabulary: int, strength: float) -> CodeModel:
    """Shares of codes, `strength` added to every count."""
    counts = np.bincount(plans.values, minlength=vocabulary) + strength
    return CodeModel(np.tile(counts / counts.sum(), (vocabulary + 1, 1)), strength)


def bigram(plans: Ragged, vocabulary: int, strength: float, *, base: CodeModel) -> CodeModel:
    """Counts of pairs, smoothed towards the unigram `base`."""
    pairs = _before(plans, vocabulary) * vocabulary + plans.values
    counts = np.bincount(pairs, minlength=(vocabulary + 1) * vocabulary).reshape(vocabulary + 1, vocabulary)
    table = (counts + strength * base.table) / (counts.sum(axis=1, keepdims=True) + strength)
    return CodeModel(table, strength)


def fit_models(plans: Ragged, vocabulary: int) -> tuple[CodeModel, CodeModel]:
    """The unigram and the bigram of training plans, their strengths chosen on every tenth of them."""
    if len(plans) < HELD_OUT:
        raise BadRequest(f"{len(plans)} training plans; at least {HELD_OUT} are needed to fit a bigram of codes")
    chooses = np.arange(len(plans)) % HELD_OUT == 0
    fitted, held = _rows(plans, ~chooses), _rows(plans, chooses)
    single = _best(lambda strength: unigram(fitted, vocabulary, strength), held)
    double = _best(lambda strength: bigram(fitted, vocabulary, strength, base=single), held)
    base = unigram(plans, vocabulary, single.strength)
    return base, bigram(plans, vocabulary, double.strength, base=base)


def _best(build: Callable[[float], CodeModel], held: Ragged) -> CodeModel:
    return min(map(build, STRENGTHS), key=lambda model: float(model.losses(held).sum()))


def _rows(plans: Ragged, where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ragged:
    return Ragged.of(plans[row] for row in np.flatnonzero(where).tolist())


def _before(plans: Ragged, beginning: int) -> Ints:
    """The code before each code, `beginning` at the first of a plan."""
    before = np.concatenate([[beginning], plans.values[:-1]]).astype(np.int64)
    starts = plans.offsets[:-1][plans.lengths > 0]
    before[starts] = beginning
    return before[: len(plans.values)]
