"""What the rules must know of a language: its connectives, the tags of its words, its quotes, its exceptions.

A file of `discodvt.discourse.languages` holds one `Language`; a `Tree` carries the one its tags belong to. The names of
the relations (`because_arg1_arg2`) are the same in every language: a marker says which of the ten it stands for. How to
add a language: docs/languages.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from discodvt.discourse.labels import MARKERS

if TYPE_CHECKING:
    from discodvt.discourse.trees import Scheme, Tree

Family = Literal["coordinator", "subordinator", "adverb"]


@dataclass(frozen=True, slots=True)
class Marker:
    """A word that may connect two clauses: the relation it stands for, and how it is used.

    The three properties are of adverbs. `opens_clause`: no connective elsewhere in its clause ("he is so tall").
    `also_conjunction`: parsers take it for a conjunction or a particle, too; it stands before a finite verb.
    `before_fragments`: what follows may be less than a clause ("... still miles from home").
    """

    relation: str  # one of MARKERS in `labels`
    family: Family
    opens_clause: bool = False
    also_conjunction: bool = False
    before_fragments: bool = False

    def __post_init__(self) -> None:
        if self.relation not in MARKERS:
            raise ValueError(f"{self.relation!r} is none of the ten relations {', '.join(MARKERS)}")


@dataclass(frozen=True, slots=True)
class Language:
    """One language. Tags are those its treebanks and parsers use (Penn for English, STTS for German)."""

    name: str
    code: str  # ISO 639-1, as spaCy and Stanza name their models
    markers: Mapping[str, Marker]  # by the word in lower case
    finite_tags: frozenset[str]  # verbs that make a clause by themselves
    tensed_tags: frozenset[str]  # those of them that no tagger takes for an infinitive
    nonfinite_tags: frozenset[str]  # infinitives and gerunds, which a tensed verb is not coordinated with
    participle_tags: frozenset[str]
    question_tags: frozenset[str]  # who, what, where
    punctuation_tags: frozenset[str]
    opening: frozenset[str]  # quotes, brackets and dashes before what they set off
    closing: frozenset[str]
    in_longer_connective: Callable[["Tree", "Scheme", int], bool]  # so that, as if: not the marker by itself
    probe: str  # a sentence with an object, a passive and an oblique: a parser's labels for it show its scheme

    def is_verb(self, tag: str) -> bool:
        return tag in self.finite_tags or tag in self.nonfinite_tags or tag in self.participle_tags


def words(text: str) -> frozenset[str]:
    """The words of a line as a set, for tables of tags and labels."""
    return frozenset(text.split())
