"""Who did what to whom: the verbs of a UD v2 tree with their arguments, in place of a semantic role labeller.

Aristotelian Rescoring takes V, ARG0, ARG1 and ARG2 from AllenNLP's labeller; here they are read off the dependencies.
Roles are slots: `it happened` has its subject in A0, which PropBank would call ARG1.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from discodvt.discourse.trees import Tree

# Verb forms that tell no event, as in A's `srl_to_storyline.py`.
_NO_EVENTS = frozenset("is was were are be 's 're 'll can could must may will would has have had do does did".split())
_TIMES = frozenset(
    "second seconds minute minutes hour hours day days night nights morning mornings evening afternoon noon midnight "
    "week weeks weekend month months year years decade century moment moments time times while today tonight tomorrow "
    "yesterday monday tuesday wednesday thursday friday saturday sunday spring summer autumn winter".split()
)
_RELATIVES = frozenset(("who", "whom", "which", "that"))
_LEFT_OUT = frozenset(("acl:relcl", "advcl:relcl", "appos", "parataxis", "cc", "cc:preconj"))  # of any argument
_KEPT_WHEN_CUT = frozenset(
    "case det det:predet amod nummod compound flat fixed nmod:poss nmod:desc nmod:unmarked".split()
)


@dataclass(frozen=True, slots=True)
class Argument:
    """Tokens of an argument in order: all of it, and what is left where that is too long (nothing of a clause)."""

    whole: tuple[int, ...]
    cut: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VerbFrame:
    """A verb of the tree and its arguments by slot (A0, A1, A2)."""

    verb: int
    arguments: dict[str, Argument]


def is_time(tree: Tree, token: int) -> bool:
    """Whether a noun says when."""
    return tree.words[token] in _TIMES


def verb_frames(tree: Tree) -> Iterator[VerbFrame]:
    """The events of a sentence, left to right; a verb without any argument is none."""
    for verb, tag in enumerate(tree.tags):
        if _is_predicate(tree, verb, tag):
            heads = dict(_argument_heads(tree, verb))
            if heads:
                yield VerbFrame(verb, {slot: _argument(tree, head, verb) for slot, head in heads.items()})


def _is_predicate(tree: Tree, token: int, tag: str) -> bool:
    if not tag.startswith("VB") or tree.deps[token] in ("aux", "aux:pass", "cop"):
        return False
    return tree.words[token].replace("’", "'") not in _NO_EVENTS


def _argument_heads(tree: Tree, verb: int) -> Iterator[tuple[str, int]]:
    """Slots and the tokens that head their arguments."""
    passive = _is_passive(tree, verb)
    subject, agent = subject_of(tree, verb), _agent(tree, verb) if passive else None
    patient = _first(tree, verb, "obj")
    if patient is None and not passive:
        patient = next((token for label in ("ccomp", "xcomp") for token in tree.dependents(verb, (label,))), None)
    receiver = _first(tree, verb, "iobj")
    if passive:
        if subject is not None and patient is not None:  # "she was given a book"
            receiver = patient
        subject, patient = agent, subject if subject is not None else patient
    if receiver is None:
        others = (token for token in tree.dependents(verb, ("obl",)) if token != agent)
        receiver = next((token for token in others if _is_receiver(tree, verb, token)), None)
    for slot, token in (("A0", subject), ("A1", patient), ("A2", receiver)):
        if token is not None:
            yield slot, _antecedent(tree, token)


def _first(tree: Tree, token: int, *labels: str) -> int | None:
    return next(tree.dependents(token, labels), None)


def _is_receiver(tree: Tree, verb: int, token: int) -> bool:
    """Whether an `obl` says to or with whom or what: not when, not by whom, and no bare preposition."""
    return token > verb and not is_time(tree, token) and tree.tags[token] not in ("IN", "TO", "RP", "RB")


def _is_passive(tree: Tree, verb: int) -> bool:
    """Marked as passive, a participle after its noun ("a class taught by ..."), or one that shares an auxiliary."""
    if tree.tags[verb] != "VBN":
        return _first(tree, verb, "nsubj:pass", "aux:pass") is not None
    if _first(tree, verb, "nsubj:pass", "aux:pass", "obl:agent") is not None or tree.deps[verb] == "acl":
        return True
    if _first(tree, verb, "nsubj", "aux") is not None:
        return False
    return tree.deps[verb] == "conj" and tree.tags[tree.heads[verb]] == "VBN" and _is_passive(tree, tree.heads[verb])


def _agent(tree: Tree, verb: int) -> int | None:
    """Who did it, of a passive verb."""
    for token in tree.dependents(verb, ("obl:agent", "obl")):
        if tree.deps[token] == "obl:agent" or any(
            tree.words[case] == "by" for case in tree.dependents(token, ("case",))
        ):
            return token
    return None


def subject_of(tree: Tree, verb: int) -> int | None:
    """A verb's subject: its own, or the one it is understood to have."""
    own = _first(tree, verb, "nsubj", "nsubj:pass")
    if own is not None or _first(tree, verb, "expl", "csubj", "nsubj:outer") is not None:
        return own
    label, head = tree.deps[verb], tree.heads[verb]
    if label == "xcomp":  # "asks him to leave", "decides to leave"
        controller = _first(tree, head, "obj", "iobj")
        return controller if controller is not None else subject_of(tree, head)
    if label == "acl":  # "a class taught by ...", "a man carrying ..."; not "an order to leave"
        return head if tree.tags[verb] in ("VBN", "VBG") else None
    beside = label == "parataxis" and verb > head and tree.tags[verb] == tree.tags[head]  # "..., then surrenders"
    return subject_of(tree, head) if label in ("conj", "advcl") or beside else None


def _antecedent(tree: Tree, token: int) -> int:
    """The noun a relative pronoun stands for; any other token itself."""
    clause = tree.heads[token]
    if tree.words[token] in _RELATIVES and clause >= 0 and tree.deps[clause] == "acl:relcl":
        return tree.heads[clause]
    return token


def _argument(tree: Tree, head: int, verb: int) -> Argument:
    """A head's subtree, relative clauses, apposition and conjunction left out; of a subject, and away from its
    own verb, also what precedes it: "to children swapped by ..." is `children` for `swapped`."""
    own = tree.heads[head] == verb and not tree.deps[head].startswith("nsubj")
    labels = _LEFT_OUT if own else _LEFT_OUT | {"case", "mark"}
    outside = {verb, *tree.dependents(head, labels)}
    outside.update(child for child in tree.dependents(head, ("acl",)) if tree.tags[child] in ("VBN", "VBG"))
    clause = tree.tags[head].startswith("VB") or _first(tree, head, "cop", "nsubj", "nsubj:pass") is not None
    kept = [child for child in tree.dependents(head, _KEPT_WHEN_CUT) if child not in outside]
    short = {head}.union(*(tree.subtree(child) for child in kept)) if not clause else set()
    return Argument(tuple(tree.trimmed(tree.subtree(head, without=outside))), tuple(tree.trimmed(short)))
