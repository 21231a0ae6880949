"""A sentence as a dependency tree, the only form in which the patterns see text, and what the labels of a tree mean.

There is one table per dependency scheme: by which labels a marker of each family hangs on its clause (Arg2), and that
clause on the other (Arg1), both in one sentence. Where the head of Arg2 is the sentence's own, Arg1 is the sentence
before (the paper's *next sentence* pattern). The rules that read the tables are in `patterns`; a parser's labels decide
which table is used (`scheme_of`). Words and tags are those of a language: `discodvt.discourse.languages`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from discodvt.discourse.language import Language
from discodvt.discourse.language import words as _labels
from discodvt.discourse.languages import ENGLISH
from discodvt.errors import BadRequest


@dataclass(slots=True)
class Tree:
    """Tokens of one sentence with tags, dependency labels and head positions; offsets are into the story.

    `heads[i]` is the position of token i's head in the sentence, or -1 at the root.
    """

    words: Sequence[str]  # lower case
    tags: Sequence[str]
    deps: Sequence[str]
    heads: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
    language: Language = ENGLISH
    children: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.children = [[] for _ in self.words]
        for token, head in enumerate(self.heads):
            if head >= 0:
                self.children[head].append(token)

    def __len__(self) -> int:
        return len(self.words)

    def dependents(self, token: int, labels: Collection[str]) -> Iterator[int]:
        """The children of a token that hang on it by one of the labels, left to right."""
        return (child for child in self.children[token] if self.deps[child] in labels)

    def subtree(self, token: int, *, without: Collection[int] = ()) -> set[int]:
        """The token and all below it, leaving out the subtrees of the tokens in `without`."""
        found: set[int] = set()
        waiting = [token]
        while waiting:
            node = waiting.pop()
            if node not in without and node not in found:
                found.add(node)
                waiting.extend(self.children[node])
        return found

    def trimmed(self, tokens: Collection[int]) -> list[int]:
        """Tokens in order, without punctuation at the edges."""
        ordered = sorted(tokens)
        while ordered and self.is_punctuation(ordered[0]):
            ordered.pop(0)
        while ordered and self.is_punctuation(ordered[-1]):
            ordered.pop()
        return ordered

    def is_punctuation(self, token: int) -> bool:
        return self.deps[token] == "punct" or self.tags[token] in self.language.punctuation_tags

    def is_verb(self, token: int) -> bool:
        return self.language.is_verb(self.tags[token])

    def is_final_question(self) -> bool:
        return any(word == "?" for word in self.words[-2:])


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text; its tree may be left out where it holds no marker."""

    start: int
    end: int
    tree: Tree | None


@dataclass(frozen=True, slots=True)
class Scheme:
    """What the patterns must know of a dependency scheme."""

    name: str
    signs: frozenset[str]  # labels by which a parser of this scheme is known
    subjects: frozenset[str]
    auxiliaries: frozenset[str]
    objects: frozenset[str]
    complements: frozenset[str]  # what only verbs (and few adjectives) govern
    particles: frozenset[str]
    coordinator_on_first: bool  # True: "and" hangs on the first conjunct; False: on the second
    connectives: frozenset[str]  # of a marker that is an adverb to some parsers, a conjunction to others ("so")
    clauses: frozenset[str]  # dependent clauses
    loose: frozenset[str]  # clauses set side by side
    fragments: frozenset[str]  # what is less than a clause but may follow a marker ("... still miles from home")
    copulas: frozenset[str] = frozenset()
    gerunds: frozenset[str] = frozenset()  # by which the head of Arg2 hangs on the marker itself ("after" -> "leaving")
    marks: frozenset[str] = frozenset(("mark",))
    adverbs: frozenset[str] = frozenset(("advmod",))
    coordinators: frozenset[str] = frozenset(("cc",))


UD2 = Scheme(
    name="ud2",
    signs=_labels("obl obj nsubj:pass aux:pass"),
    subjects=_labels("nsubj nsubj:pass nsubj:outer csubj csubj:pass csubj:outer expl"),
    copulas=_labels("cop"),
    auxiliaries=_labels("aux aux:pass"),
    objects=_labels("obj ccomp xcomp"),
    complements=_labels("obj iobj xcomp ccomp obl aux aux:pass"),
    particles=_labels("discourse"),
    coordinator_on_first=False,
    connectives=_labels("advmod mark cc discourse"),
    clauses=_labels("advcl advcl:relcl acl acl:relcl ccomp obl dep parataxis"),
    loose=_labels("conj parataxis advcl dep appos"),
    fragments=_labels("obl:unmarked obl:npmod obl:tmod"),
)

CLEARNLP = Scheme(
    name="clearnlp",
    signs=_labels("pobj dobj nsubjpass auxpass"),
    subjects=_labels("nsubj nsubjpass csubj csubjpass expl"),
    auxiliaries=_labels("aux auxpass"),
    objects=_labels("dobj ccomp xcomp attr acomp"),
    complements=_labels("dobj dative xcomp ccomp aux auxpass"),
    particles=_labels("intj"),
    coordinator_on_first=True,
    gerunds=_labels("pcomp"),
    connectives=_labels("advmod mark cc intj"),
    clauses=_labels("advcl acl relcl ccomp dep parataxis"),
    loose=_labels("conj parataxis advcl dep ccomp"),
    fragments=_labels("npadvmod"),
)

UD1 = Scheme(
    name="ud1",
    signs=_labels("nmod dobj nsubjpass auxpass"),
    subjects=_labels("nsubj nsubjpass csubj csubjpass expl"),
    copulas=_labels("cop"),
    auxiliaries=_labels("aux auxpass"),
    objects=_labels("dobj ccomp xcomp"),
    complements=_labels("dobj iobj xcomp ccomp aux auxpass"),
    particles=_labels("discourse"),
    coordinator_on_first=True,
    connectives=_labels("advmod mark cc dep discourse"),
    clauses=_labels("advcl acl acl:relcl ccomp nmod dep parataxis"),
    loose=_labels("conj parataxis advcl dep"),
    fragments=_labels("nmod:npmod nmod:tmod"),
)

SCHEMES = {scheme.name: scheme for scheme in (UD2, CLEARNLP, UD1)}


def scheme_of(labels: Collection[str], *, source: str) -> Scheme:
    """The scheme a parser's labels belong to; an unknown one is refused by name."""
    for scheme in SCHEMES.values():
        if scheme.signs <= set(labels):
            return scheme
    some = ", ".join(sorted(labels)[:8]) or "none"
    raise BadRequest(
        f"{source}: its dependency labels ({some}, ...) belong to no known scheme; "
        f"use a parser with {', '.join(SCHEMES)} labels"
    )
