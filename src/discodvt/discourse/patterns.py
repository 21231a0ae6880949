"""Dependency patterns: which tokens of a sentence are discourse connectives, and what their two arguments are.

Paper, appendix A.3.2 and its figure of patterns; DisSent (Nie et al., 2019). The labels come from the scheme's table,
words, tags and exceptions from the tree's language; the checks here are grammar: an argument must be a clause; some
markers must open theirs; words of a longer connective are not markers by themselves. Examples are English.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from discodvt.discourse.language import Marker
from discodvt.discourse.trees import Scheme, Tree

_AMBIGUOUS = frozenset("\"'-`")  # may open or close


@dataclass(frozen=True, slots=True)
class Connective:
    """A marker in its sentence, with the tokens of its arguments; no Arg1 means the sentence before is Arg1."""

    relation: str  # what the marker stands for
    token: int
    arg1: frozenset[int] | None
    arg2: frozenset[int]


def find_connectives(tree: Tree, scheme: Scheme) -> Iterator[Connective]:
    """Every connective of the sentence, left to right."""
    markers = tree.language.markers
    for token, word in enumerate(tree.words):
        if word in markers:
            found = _connective(tree, scheme, token, markers[word])
            if found is not None:
                yield found


def _connective(tree: Tree, scheme: Scheme, token: int, marker: Marker) -> Connective | None:
    if tree.language.in_longer_connective(tree, scheme, token):
        return None
    if marker.family == "coordinator":
        heads = _coordination(tree, scheme, token)
    elif marker.family == "subordinator":
        heads = _subordination(tree, scheme, token)
    else:
        heads = _adverb(tree, scheme, token, marker)
    if heads is None:
        return None
    first, second = heads
    arg2 = _argument(tree, second) - {token}
    if first is not None and not _is_clause(tree, scheme, second):
        arg2 = set(range(token + 1, len(tree)))  # a fragment: what follows belongs to it
    if first is None:
        return Connective(marker.relation, token, None, frozenset(arg2))
    arg1 = _argument(tree, first, without=second) - arg2 - {token}
    return Connective(marker.relation, token, frozenset(arg1), frozenset(arg2)) if arg1 and arg2 else None


# --- the three families of markers: each returns the heads of (Arg1 or None, Arg2), or None for no relation ---


def _coordination(tree: Tree, scheme: Scheme, token: int) -> tuple[int | None, int] | None:
    """`and` between two clauses, or before the first one of a sentence."""
    if tree.deps[token] not in scheme.coordinators or tree.heads[token] < 0:
        return None
    first, second = _conjuncts(tree, scheme, token)
    if second < token or not _is_clause(tree, scheme, second):
        return None
    if first is None:
        return (None, second) if _opens_sentence(tree, scheme, token) else None
    if tree.tags[second] in tree.language.tensed_tags:
        first = _finite_above(tree, scheme, first)
    if not _is_clause(tree, scheme, first) or _is_one_clause(tree, scheme, first, token, second):
        return None
    return first, second


def _subordination(tree: Tree, scheme: Scheme, token: int) -> tuple[int | None, int] | None:
    """A clause opened by its marker, and the clause it hangs on."""
    gerund = next(tree.dependents(token, scheme.gerunds), None)
    if gerund is not None:
        return (_clause_above(tree, scheme, tree.heads[token]), gerund) if tree.heads[token] >= 0 else None
    second = tree.heads[token]
    if second < 0 or tree.deps[token] not in scheme.marks or not _is_clause(tree, scheme, second):
        return None
    if any(child < token for child in tree.dependents(second, scheme.subjects | scheme.copulas)):
        return None  # "that is because ...": a predicate, not an argument
    top = _first_conjunct(tree, second)
    if tree.heads[top] < 0 and top != second:
        top = second  # "..., but only because ...": a reason set beside what it explains
    if tree.heads[top] < 0:
        return (None, second) if _opens_sentence(tree, scheme, token) else None
    if tree.deps[top] not in scheme.clauses | {"conj"}:
        return None
    return _clause_above(tree, scheme, tree.heads[top]), second


def _adverb(tree: Tree, scheme: Scheme, token: int, marker: Marker) -> tuple[int | None, int] | None:
    """so, then, also, still: an adverb of Arg2, which stands beside Arg1 or opens a sentence."""
    second = tree.heads[token]
    if second < 0 or tree.deps[token] not in (scheme.connectives if marker.also_conjunction else scheme.adverbs):
        return None
    joins = scheme.loose
    if marker.also_conjunction:
        joins |= scheme.clauses
    if marker.before_fragments:
        joins |= scheme.fragments
    opening = _opens_clause(tree, scheme, token, second)
    if marker.opens_clause and not opening:
        return None
    if marker.also_conjunction and (token > second or not _is_finite(tree, scheme, second)):
        return None
    governor = tree.heads[second]
    fragment = marker.before_fragments and tree.deps[second] in joins and governor < token and tree.is_verb(governor)
    if not fragment and not _is_clause(tree, scheme, second):
        return None
    if tree.deps[second] in joins and tree.heads[second] >= 0:
        first = _preceding_conjunct(tree, scheme, second) if tree.deps[second] == "conj" else tree.heads[second]
        first = _clause_above(tree, scheme, first)
        if first < second:
            return first, second
    if tree.heads[second] < 0:
        particle = tree.deps[token] in scheme.particles or (marker.also_conjunction and tree.is_final_question())
        return None if particle and _opens_sentence(tree, scheme, token) else (None, second)
    return (None, second) if _opens_sentence(tree, scheme, token) else None


# --- grammar ---


def _conjuncts(tree: Tree, scheme: Scheme, token: int) -> tuple[int | None, int]:
    """The heads of the two parts that a coordinator links; the first is None where it opens the sentence."""
    head = tree.heads[token]
    if scheme.coordinator_on_first:
        second = next((child for child in tree.dependents(head, ("conj",)) if child > token), None)
        return (None, head) if second is None else (_preceding_conjunct(tree, scheme, second), second)
    if tree.deps[head] == "conj":
        return _preceding_conjunct(tree, scheme, head), head
    # Parsers hang "and" on the first noun of its clause ("..., and the name was changed"): it belongs to the verb.
    while token < head < tree.heads[head]:
        head = tree.heads[head]
    if tree.deps[head] == "conj":
        return _preceding_conjunct(tree, scheme, head), head
    return (tree.heads[head] if 0 <= tree.heads[head] < token else None), head


def _preceding_conjunct(tree: Tree, scheme: Scheme, conjunct: int) -> int:
    """The nearest clause before this one in its list of conjuncts, or the list's first conjunct."""
    first = tree.heads[conjunct]
    before = (other for other in tree.dependents(first, ("conj",)) if other < conjunct)
    return max((other for other in before if _is_clause(tree, scheme, other)), default=first)


def _first_conjunct(tree: Tree, token: int) -> int:
    while tree.deps[token] == "conj" and tree.heads[token] >= 0:
        token = tree.heads[token]
    return token


def _is_clause(tree: Tree, scheme: Scheme, head: int) -> bool:
    """A verb, or a predicate with a subject or a copula; not a participle or gerund used as a noun or adjective.

    Where the tagger took a verb for a noun, its place in the tree may show it: a clause's label, a verb's dependents.
    """
    if any(tree.dependents(head, scheme.subjects | scheme.copulas)):
        return True
    if tree.tags[head] in tree.language.finite_tags:
        return True
    if tree.is_verb(head):
        return tree.deps[head] not in ("amod", "compound", "nmod", "nsubj", "obj", "dobj", "pobj")
    return tree.deps[head] in ("advcl", "parataxis", "ccomp", "appos") and any(
        tree.dependents(head, scheme.complements)
    )


def _is_finite(tree: Tree, scheme: Scheme, head: int) -> bool:
    """A clause with a subject or a finite or imperative verb."""
    return tree.tags[head] in tree.language.finite_tags or any(
        tree.dependents(head, scheme.subjects | scheme.auxiliaries)
    )


def _clause_above(tree: Tree, scheme: Scheme, token: int) -> int:
    """The nearest head of a clause at or above a token; an open complement goes with what it completes."""
    while (not _is_clause(tree, scheme, token) or tree.deps[token] == "xcomp") and tree.heads[token] >= 0:
        token = tree.heads[token]
    return token


def _finite_above(tree: Tree, scheme: Scheme, token: int) -> int:
    """The nearest finite clause at or above a gerund or infinitive: a finite verb is coordinated with its like."""
    while tree.tags[token] in tree.language.nonfinite_tags and tree.heads[token] >= 0 and tree.heads[token] < token:
        if any(tree.dependents(token, scheme.auxiliaries | scheme.subjects)):
            break
        token = tree.heads[token]
    return token


def _is_one_clause(tree: Tree, scheme: Scheme, first: int, token: int, second: int) -> bool:
    """Verbs joined below the clause: open complements ("wanted to sit and eat"), clauses that wh-words make a noun of
    ("who she is and what she wants"), bare verbs side by side that share an object or have none ("cut and edit it")."""
    following = token + 1
    if tree.deps[first] == "xcomp" or (
        tree.heads[following] == second and tree.tags[following] in tree.language.question_tags
    ):
        return True
    if first != token - 1 or second != token + 1 or any(tree.dependents(second, scheme.subjects)):
        return False
    return any(tree.dependents(second, scheme.objects)) or not any(
        child > second and not tree.is_punctuation(child) for child in tree.children[second]
    )


def _opens_clause(tree: Tree, scheme: Scheme, token: int, head: int) -> bool:
    """Nothing of the clause stands before the marker but punctuation, particles and coordinators."""
    before = (node for node in tree.subtree(head) if node < token)
    light = scheme.particles | {"cc", "punct"}
    return all(tree.deps[node] in light or tree.is_punctuation(node) for node in before)


def _opens_sentence(tree: Tree, scheme: Scheme, token: int) -> bool:
    light = scheme.particles | {"cc", "punct"}
    return all(tree.deps[node] in light or tree.is_punctuation(node) for node in range(token))


def _argument(tree: Tree, head: int, *, without: int | None = None) -> set[int]:
    """The tokens of a clause; `without` leaves out another argument and all that is set beside it from there on."""
    beside: set[int] = set()
    if without is not None:
        beside = {child for child in tree.dependents(head, ("conj", "parataxis")) if child >= without} | {without}
    tokens = tree.trimmed(tree.subtree(head, without=beside))
    found = set(tokens)
    if tokens:
        opening = tree.language.opening - _AMBIGUOUS
        after = tokens[-1] + 1
        while after < len(tree) and tree.is_punctuation(after) and tree.words[after] not in opening:
            found.add(after)
            after += 1
    return found
