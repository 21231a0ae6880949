"""What a classifier should not be able to do: learn from shuffled labels, or recognise a pair torn apart."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from discodvt.discourse.labels import MARKERS
from discodvt.evaluation.arrays import Ints
from discodvt.evaluation.discourse.encoding import EncodedPairs
from discodvt.evaluation.discourse.pairs import Pair

Swap: TypeAlias = Literal["none", "any", "same-marker"]


def shuffled(pairs: EncodedPairs, *, seed: int) -> EncodedPairs:
    """The same pairs with one another's markers: a classifier trained on them must fall to chance."""
    return replace(pairs, labels=np.random.default_rng(seed).permutation(pairs.labels))


def swapped(pairs: Sequence[Pair], how: Swap, *, seed: int) -> list[Pair]:
    """Each pair with the Arg2 of another one, of any marker or of the same one."""
    if how == "none":
        return list(pairs)
    random = np.random.default_rng(seed)
    group = np.array([MARKERS.index(pair.marker) if how == "same-marker" else 0 for pair in pairs])
    donor: Ints = np.arange(len(pairs))
    for number in np.unique(group):
        members = random.permutation(np.flatnonzero(group == number))
        donor[members] = np.roll(members, 1)
    return [pair._replace(arg2=pairs[other].arg2) for pair, other in zip(pairs, donor, strict=True)]
