"""What the four rescorers of Aristotelian Rescoring learn from: real continuations of a plot, and spoiled ones.

relevance      the continuation of another prompt's plot
event-inter    the sentences in another order
event-intraV   in sentences of two or more events the verbs change places, arguments stay
entity         one later mention becomes another entity that was already introduced

The context is the prompt and the plot up to its first sentence with an event; the continuation is the rest. Both sides
of a pair are cut to the same number of words, because decoding shows a rescorer prefixes. A pair always differs within
that length, and entities are numbered anew in both, so that neither numbers nor lengths give a negative away.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from discodvt.baselines.plots import Event, Part, Plot, entities_of, renumber, source_text
from discodvt.corpus.splits import draw_split

Kind = Literal["relevance", "event-inter", "event-intraV", "entity"]
KINDS: tuple[Kind, ...] = ("relevance", "event-inter", "event-intraV", "entity")
Item = TypeVar("Item")


class Pair(NamedTuple):
    """The text a rescorer reads before, and the two continuations it must tell apart."""

    context: str
    real: str
    changed: str


@dataclass(frozen=True, slots=True)
class Continuation:
    """A plot cut after its first sentence with an event."""

    prompt: str
    opening: str  # text of the plot's beginning
    rest: Plot

    @property
    def introduced(self) -> int:
        """How many entities the opening has introduced."""
        return len(set(entities_of(self.opening)))


def draw_set(prompt: str, *, seed: int, shares: Sequence[float] = (0.75, 0.2, 0.05)) -> str:
    """Who may learn from the plots of a prompt: the two `writers`, the `scorers` or their `weights`. Sets are disjoint
    by prompt. (A keeps 20% for its rescorers.)"""
    names = {"train": "writers", "valid": "scorers", "test": "weights"}
    return names[draw_split(prompt, seed=seed, shares=shares)]


def make_pairs(plots: Iterable[tuple[str, Plot]], kind: Kind, *, seed: int) -> Iterator[Pair]:
    """A pair for each prompt and plot that allows one; what is drawn for a plot depends on seed, kind and plot only,
    for `relevance` also on the other plots."""
    items = [found for prompt, plot in plots if (found := _continuation(prompt, plot)) is not None]
    others = _Others(items)
    for number, item in enumerate(items):
        random = _generator(seed, kind, item)
        if kind == "relevance":
            changed = others.draw(number, random)
        elif kind == "event-inter":
            changed = _other_order(item.rest, random)
        elif kind == "event-intraV":
            changed = _verbs_moved(item.rest, random)
        else:
            changed = _entity_changed(item, random)
        pair = _cut(item, changed, random) if changed is not None else None
        if pair is not None:
            yield pair


def _continuation(prompt: str, plot: Plot) -> Continuation | None:
    """None where no event is left to continue with."""
    plot = Plot.read(renumber(plot.text))
    first = next((number for number, events in enumerate(plot.sentences) if events), len(plot.sentences))
    opening, rest = plot.sentences[: first + 1], plot.sentences[first + 1 :]
    return Continuation(prompt, Plot(opening).text, Plot(rest)) if any(rest) else None


def _generator(seed: int, kind: str, item: Continuation) -> np.random.Generator:
    text = f"{kind}\0{item.prompt}\0{item.opening}\0{item.rest.text}"
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "big")])


def _cut(item: Continuation, changed: Plot, random: np.random.Generator) -> Pair | None:
    """Both continuations as texts of one random length, long enough to differ; None where they never do."""
    context = source_text(item.prompt, item.opening)
    words = [_renumbered_rest(item.opening, plot).split() for plot in (item.rest, changed)]
    longest = min(map(len, words))
    same = next((place for place in range(longest) if words[0][place] != words[1][place]), longest)
    if same == longest:
        return None
    length = int(random.integers(same + 1, longest + 1))
    real, false = (" ".join(part[:length]) for part in words)
    return Pair(context, real, false)


def _renumbered_rest(opening: str, rest: Plot) -> str:
    """A continuation with the numbers it has after this opening, in which entities are numbered from 0."""
    return renumber(f"{opening} {rest.text}")[len(opening) + 1 :]


class _Others:
    """Continuations for `relevance`, from other prompts (a prompt may have many stories, and each might fit).

    Among plots whose opening introduces as many entities: with more or fewer, the numbers would tell.
    """

    def __init__(self, items: Sequence[Continuation]) -> None:
        self.items = items
        self.alike: dict[int, list[int]] = defaultdict(list)
        for number, item in enumerate(items):
            self.alike[item.introduced].append(number)

    def draw(self, number: int, random: np.random.Generator) -> Plot | None:
        own = self.items[number]
        near = self.alike[own.introduced]
        for choices in (near, range(len(self.items))):
            for place in random.integers(len(choices), size=20):
                other = self.items[choices[int(place)]]
                if _key(other.prompt) != _key(own.prompt):
                    return other.rest
        return None


def _key(prompt: str) -> str:
    return " ".join(prompt.casefold().split())


def _other_order(rest: Plot, random: np.random.Generator) -> Plot | None:
    """Sentences with events change places among themselves; empty ones stay."""
    places = [number for number, events in enumerate(rest.sentences) if events]
    order = _deranged([rest.sentences[place] for place in places], random)
    if order is None:
        return None
    sentences = list(rest.sentences)
    for place, events in zip(places, order, strict=True):
        sentences[place] = events
    return Plot(tuple(sentences))


def _verbs_moved(rest: Plot, random: np.random.Generator) -> Plot | None:
    """Verbs change places within each sentence that has different ones; None where no sentence has."""
    moved = [_with_verbs(events, _deranged([_verb(event) for event in events], random)) for events in rest.sentences]
    return Plot(tuple(moved)) if tuple(moved) != rest.sentences else None


def _verb(event: Event) -> str:
    return next((part.words for part in event if part.slot == "V"), "")


def _with_verbs(events: tuple[Event, ...], verbs: Sequence[str] | None) -> tuple[Event, ...]:
    if verbs is None:
        return events
    return tuple(
        tuple(Part(part.slot, verb) if part.slot == "V" else part for part in event)
        for event, verb in zip(events, verbs, strict=True)
    )


def _entity_changed(item: Continuation, random: np.random.Generator) -> Plot | None:
    """One mention that is not its entity's first gets the number of another entity introduced before it."""
    before = entities_of(item.opening)
    numbers = entities_of(item.rest.text)
    choices = [
        place
        for place, number in enumerate(numbers)
        if (known := {*before, *numbers[:place]}) and number in known and len(known) > 1
    ]
    if not choices:
        return None
    place = int(random.choice(choices))
    others = sorted({*before, *numbers[:place]} - {numbers[place]})
    tag, other = f"<ent{numbers[place]}>", f"<ent{random.choice(others)}>"
    text = item.rest.text
    pieces = text.split(tag)
    nth = numbers[:place].count(numbers[place]) + 1  # the pieces before this mention
    return Plot.read(tag.join(pieces[:nth]) + other + tag.join(pieces[nth:]))


def _deranged(items: Sequence[Item], random: np.random.Generator) -> list[Item] | None:
    """The items in an order in which every place holds something else; where equal items forbid that, in an order in
    which some place does; None where all are equal."""
    if len(items) < 2:
        return None
    orders = ([items[place] for place in random.permutation(len(items))] for _ in range(50))
    fallback = None
    for order in orders:
        moved = [new != old for new, old in zip(order, items, strict=True)]
        if all(moved):
            return order
        if fallback is None and any(moved):
            fallback = order
    return fallback
