"""The annotator's score against gold explicit connectives: markers found, and how much of their arguments.

Counted are explicit connectives of exactly one token equal to a marker; a hit on any other token, be it part of a
longer connective (`so that`), is an error. Argument F1 pools the tokens of all connectives found by both sides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from discodvt.discourse.annotation import Annotation, Span
from discodvt.discourse.gold import GoldConnective, GoldDocument
from discodvt.discourse.labels import MARKERS


@dataclass(slots=True)
class Tally:
    """Counts of what both sides have, what only we found, what only gold has."""

    both: int = 0
    ours: int = 0
    gold: int = 0

    def add(self, ours: Iterable[int], gold: Iterable[int]) -> None:
        mine, theirs = set(ours), set(gold)
        self.both += len(mine & theirs)
        self.ours += len(mine)
        self.gold += len(theirs)

    def as_dict(self) -> dict[str, float]:
        precision = self.both / self.ours if self.ours else 0.0
        recall = self.both / self.gold if self.gold else 0.0
        f1 = 2 * self.both / (self.ours + self.gold) if self.ours + self.gold else 0.0
        return {"precision": precision, "recall": recall, "f1": f1}


@dataclass(slots=True)
class Score:
    """Marker and argument tallies over documents."""

    markers: dict[str, Tally] = field(default_factory=lambda: {marker: Tally() for marker in MARKERS})
    arg1: Tally = field(default_factory=Tally)
    arg2: Tally = field(default_factory=Tally)

    def add(self, annotation: Annotation, document: GoldDocument) -> None:
        position = {start: index for index, (start, _) in enumerate(document.tokens)}
        gold = {connective.token: connective for connective in document.connectives}
        found = {}
        for number, mention in enumerate(annotation.mentions):
            # a token the parser cut differently can match no gold token: it counts as an error of its own
            found[position.get(mention.start, -1 - number)] = mention
        for marker, tally in self.markers.items():
            tally.add(
                (at for at, mention in found.items() if mention.marker == marker),
                (at for at, connective in gold.items() if connective.marker == marker),
            )
        for at in found.keys() & gold.keys():
            if found[at].marker == gold[at].marker:
                self._add_arguments(found[at].arg1, found[at].arg2, gold[at], document.tokens)

    def _add_arguments(self, arg1: Span, arg2: Span, gold: GoldConnective, tokens: Sequence[Span]) -> None:
        second = set(_tokens_in(arg2, tokens)) - {gold.token}
        first = set(_tokens_in(arg1, tokens)) - {gold.token}
        # the span of an argument that the other interrupts runs over it
        first, second = (first - second, second) if len(first) > len(second) else (first, second - first)
        self.arg1.add(first, gold.arg1)
        self.arg2.add(second, gold.arg2)

    def as_dict(self) -> dict[str, Any]:
        total = Tally()
        for tally in self.markers.values():
            total.both += tally.both
            total.ours += tally.ours
            total.gold += tally.gold
        return total.as_dict() | {
            "arg1_f1": self.arg1.as_dict()["f1"],
            "arg2_f1": self.arg2.as_dict()["f1"],
            "markers": {
                marker: tally.as_dict() | {"gold": tally.gold, "found": tally.ours}
                for marker, tally in self.markers.items()
            },
        }


def _tokens_in(span: Span, tokens: Sequence[Span]) -> Iterable[int]:
    return (index for index, (start, end) in enumerate(tokens) if start >= span[0] and end <= span[1])
