"""A sentence as a dependency tree, the only form in which the patterns see text, and what the labels of a tree mean.

There is one table per dependency scheme: how a marker hangs on its clause (Arg2) and that clause on the other (Arg1).
The rules that read the tables are in `patterns`; a parser's labels decide which table is used (`scheme_of`). A row
reads: the marker hangs on the head of Arg2 by one of `binds`, and the head of Arg2 hangs on the head of Arg1 by one of
`joins`, both in one sentence. Where the head of Arg2 is the sentence's own, Arg1 is the sentence before (the paper's
*next sentence* pattern).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from discodvt.errors import BadRequest

VERB_TAGS = frozenset(("VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"))
PUNCTUATION_TAGS = frozenset((",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH", "NFP", "$,", "SYM", "_SP"))


@dataclass(slots=True)
class Tree:
    """Tokens of one sentence with Penn tags, dependency labels and head positions; offsets are into the story.

    `heads[i]` is the position of token i's head in the sentence, or -1 at the root.
    """

    words: Sequence[str]  # lower case
    tags: Sequence[str]
    deps: Sequence[str]
    heads: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]
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

    def is_punctuation(self, token: int) -> bool:
        return self.deps[token] == "punct" or self.tags[token] in PUNCTUATION_TAGS

    def is_verb(self, token: int) -> bool:
        return self.tags[token] in VERB_TAGS

    def is_final_question(self) -> bool:
        return any(word == "?" for word in self.words[-2:])


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text; its tree may be left out where it holds no marker."""

    start: int
    end: int
    tree: Tree | None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One row of a table; see the module's text."""

    binds: frozenset[str]
    joins: frozenset[str]


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
    patterns: Mapping[str, Pattern]
    copulas: frozenset[str] = frozenset()
    gerunds: frozenset[str] = frozenset()  # by which the head of Arg2 hangs on the marker itself ("after" -> "leaving")
    marks: frozenset[str] = frozenset(("mark",))


def _labels(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _patterns(*, so: str, clauses: str, loose: str, fragments: str) -> dict[str, Pattern]:
    """The ten rows. `clauses`: labels of dependent clauses; `loose`: of clauses set side by side; `fragments`: of what
    is less than a clause but may follow `still` ("... still miles from home")."""
    subordinator = Pattern(_labels("mark"), _labels(clauses))
    adverb = Pattern(_labels("advmod"), _labels(loose))
    return {
        "although": subordinator,
        "because": subordinator,
        "before": subordinator,
        "after": subordinator,
        "as": subordinator,
        "so": Pattern(_labels(so), _labels(clauses) | _labels(loose)),
        "then": adverb,
        "also": adverb,
        "still": Pattern(_labels("advmod"), _labels(loose) | _labels(fragments)),
        "and": Pattern(_labels("cc"), _labels("conj")),
    }


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
    patterns=_patterns(
        so="advmod mark cc discourse",
        clauses="advcl advcl:relcl acl acl:relcl ccomp obl dep parataxis",
        loose="conj parataxis advcl dep appos",
        fragments="obl:unmarked obl:npmod obl:tmod",
    ),
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
    patterns=_patterns(
        so="advmod mark cc intj",
        clauses="advcl acl relcl ccomp dep parataxis",
        loose="conj parataxis advcl dep ccomp",
        fragments="npadvmod",
    ),
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
    patterns=_patterns(
        so="advmod mark cc dep discourse",
        clauses="advcl acl acl:relcl ccomp nmod dep parataxis",
        loose="conj parataxis advcl dep",
        fragments="nmod:npmod nmod:tmod",
    ),
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
