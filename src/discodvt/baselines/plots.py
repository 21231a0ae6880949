"""Plots and tagged stories, the two texts of Aristotelian Rescoring (Goldfarb-Tarrant et al. 2020; paper section 4.3).

A plot is a story as events, one slot per sentence, which may be empty:

    <A0> the dog <V> chased <A1> <ent0> <event> <A0> <ent0> <V> fell <sent>

A tagged story is the story itself with `<entN>` before each mention and `<sent>` after each sentence. Tags stand before
the white space, so that removing them gives the story back to the character, and its subwords too.
Plot writer: prompt -> plot. Story writer: prompt `<sent>` plot -> tagged story.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tokenizers import AddedToken

from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MAX_ENTITIES = 32
LONGEST_ARGUMENT = 5  # words
SENTENCE, EVENT, VERB = "<sent>", "<event>", "<V>"
ARGUMENTS = ("A0", "A1", "A2")
ENTITY_TAGS = tuple(f"<ent{number}>" for number in range(MAX_ENTITIES))
TAGS = (*ENTITY_TAGS, SENTENCE, EVENT, *(f"<{slot}>" for slot in ARGUMENTS), VERB)

_TAG = re.compile("|".join(TAGS))
_FIRST_TAGS = re.compile(f"^(?:{_TAG.pattern})+ ?")
_ENTITY = re.compile("<ent([0-9]+)>")
_SLOT = re.compile(r"<(A[012]|V)>")


class Part(NamedTuple):
    """One slot of an event (A0, V, A1 or A2) and its words."""

    slot: str
    words: str


Event = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """The events of each sentence, in the order of the text."""

    sentences: tuple[tuple[Event, ...], ...]

    @property
    def text(self) -> str:
        return " ".join(part for events in self.sentences for part in (*_printed(events), SENTENCE))

    @classmethod
    def read(cls, text: str) -> "Plot":
        """The plot a text says. Any white space around tags will do, for decoders leave it out; so may the last
        `<sent>` be missing. Words outside any slot, which no real plot has, are left out."""
        sentences = text.split(SENTENCE)
        if not sentences[-1].strip():
            sentences.pop()
        return cls(tuple(tuple(_events(sentence)) for sentence in sentences))


def _printed(events: Iterable[Event]) -> Iterable[str]:
    for number, event in enumerate(events):
        if number:
            yield EVENT
        for slot, words in event:
            yield f"<{slot}> {words}"


def _events(sentence: str) -> Iterable[Event]:
    for event in sentence.split(EVENT):
        _, *found = _SLOT.split(event)  # slot, words, slot, words, ...
        spaced = (" ".join(_ENTITY.sub(r" \g<0>", words).split()) for words in found[1::2])
        parts = tuple(Part(slot, words) for slot, words in zip(found[::2], spaced, strict=True) if words)
        if parts:
            yield parts


def source_text(prompt: str, plot: str) -> str:
    """What the story writer and the rescorers read: prompt and plot (A separates them by `<EOT>`)."""
    return f"{prompt} {SENTENCE} {plot}".rstrip()


def add_tags(tokenizer: "PreTrainedTokenizerBase") -> int:
    """Make each tag one token; returns how many are new, for which the model needs embeddings.

    White space before a tag belongs to it, or every tag would cost a lone space. A byte-level tokenizer no longer puts
    a space before a text by itself: it would do so after every tag. The space of `as_input` is enough.
    """
    pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    if getattr(pre_tokenizer, "add_prefix_space", False):
        pre_tokenizer.add_prefix_space = False
    if "add_prefix_space" in tokenizer.init_kwargs:
        tokenizer.init_kwargs["add_prefix_space"] = tokenizer.add_prefix_space = False  # which is saved differs
    return int(tokenizer.add_tokens([AddedToken(tag, lstrip=True, normalized=False) for tag in TAGS]))


def tag_story(story: str, mentions: Iterable[tuple[int, int]], sentence_ends: Iterable[int]) -> str:
    """The story with `<entN>` before each mention (its start, its entity's number) and `<sent>` after each sentence.

    Tags at the very beginning are followed by a space, so that the first word is the subword it is elsewhere.
    """
    tags = [(_before_space(story, start), 1, ENTITY_TAGS[number]) for start, number in mentions]
    tags += [(end, 0, SENTENCE) for end in sentence_ends]
    ordered = sorted(tags)
    first = "".join(tag for place, _, tag in ordered if place == 0)
    pieces, done = [f"{first} " if first else ""], 0
    for place, _, tag in ordered[first.count("<") :]:
        pieces += [story[done:place], tag]
        done = place
    return "".join([*pieces, story[done:]])


def strip_tags(text: str) -> str:
    """A tagged story without its tags; nothing else changes."""
    return _TAG.sub("", _FIRST_TAGS.sub("", text))


def refuse_tags(text: str, *, where: str) -> None:
    """A text that holds a tag itself could not be told from a tagged one."""
    found = _TAG.search(text)
    if found:
        raise BadRequest(f"{where}: holds {found[0]}, a tag of plots; remove it from the text")


def _before_space(text: str, place: int) -> int:
    return len(text[:place].rstrip())


def renumber(text: str) -> str:
    """Entities numbered anew by their first mention, so that numbers say nothing but who is who."""
    numbers: dict[str, int] = {}
    return _ENTITY.sub(lambda tag: f"<ent{numbers.setdefault(tag[1], len(numbers))}>", text)


def entities_of(text: str) -> list[int]:
    """The numbers of all mentions in a plot or a tagged story, in order."""
    return [int(number) for number in _ENTITY.findall(text)]


def entity_distance(plot: str, story: str) -> float:
    """How far a tagged story departs from a plot: edit distance of their entities over the longer length, 0 to 1."""
    from nltk.metrics.distance import edit_distance  # all of NLTK comes with it

    first, second = entities_of(plot), entities_of(story)
    longer = max(len(first), len(second))
    return float(edit_distance(first, second) / longer) if longer else 0.0
