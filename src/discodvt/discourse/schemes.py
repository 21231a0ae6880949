"""One table per dependency scheme: how a marker hangs on its clause (Arg2) and that clause on the other (Arg1).

The rules that read the tables are in `patterns`; a parser's labels decide which table is used (`scheme_of`).
A row reads: the marker hangs on the head of Arg2 by one of `binds`, and the head of Arg2 hangs on the head of Arg1 by
one of `joins`, both in one sentence. Where the head of Arg2 is the sentence's own, Arg1 is the sentence before (the
paper's *next sentence* pattern).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from discodvt.errors import BadRequest


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
    copulas: frozenset[str]
    auxiliaries: frozenset[str]
    objects: frozenset[str]
    complements: frozenset[str]  # what only verbs (and few adjectives) govern
    marks: frozenset[str]
    particles: frozenset[str]
    coordinator_on_first: bool  # True: "and" hangs on the first conjunct; False: on the second
    gerunds: frozenset[str]  # labels by which the head of Arg2 hangs on the marker itself ("after" -> "leaving")
    patterns: Mapping[str, Pattern]


def _labels(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _patterns(*, mark: str, so: str, clauses: str, loose: str, fragments: str) -> dict[str, Pattern]:
    """The ten rows. `clauses`: labels of dependent clauses; `loose`: of clauses set side by side; `fragments`: of what
    is less than a clause but may follow `still` ("... still miles from home")."""
    subordinator = Pattern(_labels(mark), _labels(clauses))
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
    marks=_labels("mark"),
    particles=_labels("discourse"),
    coordinator_on_first=False,
    gerunds=frozenset(),
    patterns=_patterns(
        mark="mark",
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
    copulas=frozenset(),
    auxiliaries=_labels("aux auxpass"),
    objects=_labels("dobj ccomp xcomp attr acomp"),
    complements=_labels("dobj dative xcomp ccomp aux auxpass"),
    marks=_labels("mark"),
    particles=_labels("intj"),
    coordinator_on_first=True,
    gerunds=_labels("pcomp"),
    patterns=_patterns(
        mark="mark",
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
    marks=_labels("mark"),
    particles=_labels("discourse"),
    coordinator_on_first=True,
    gerunds=frozenset(),
    patterns=_patterns(
        mark="mark",
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
