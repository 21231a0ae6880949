"""From parsed sentences to EDUs, relations and mentions (paper, appendix A.3.2).

A sentence is one EDU, or two where a connective divides it; among several the one that divides it most evenly does.
EDUs tile the story: whitespace belongs to the EDU before it, the marker to the EDU of Arg2.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from discodvt.discourse.labels import CATEGORIES, UNKNOWN, category_of, relation
from discodvt.discourse.language import Language
from discodvt.discourse.languages import ENGLISH
from discodvt.discourse.patterns import Connective, find_connectives
from discodvt.discourse.trees import Scheme, Sentence, Tree

Span = tuple[int, int]
LONGEST_SENTENCE = 400  # tokens; what runs on for longer is no sentence, and stays one EDU
_RANK = {category: rank for rank, category in enumerate(CATEGORIES)}


@dataclass(frozen=True, slots=True)
class Mention:
    """A connective found in a text; all offsets are characters of that text."""

    marker: str  # the English one of its relation, in any language
    start: int
    end: int
    arg1: Span
    arg2: Span
    kind: str  # "intra": both arguments in one sentence; "inter": Arg1 is the sentence before


@dataclass(frozen=True, slots=True)
class Annotation:
    """A text cut into EDUs that tile it, the relations between neighbours, and every connective found."""

    edus: list[Span]
    relations: list[str]
    mentions: list[Mention]


@dataclass(frozen=True, slots=True)
class _Division:
    """A place where a connective cuts its sentence in two."""

    at: int
    label: str
    evenness: int


def annotate_sentences(
    text: str, sentences: Iterable[Sentence], scheme: Scheme, language: Language = ENGLISH
) -> Annotation:
    """Annotate a text from its sentences, which come in order and may leave gaps (whitespace) between them."""
    edus: list[Span] = []
    relations: list[str] = []
    mentions: list[Mention] = []
    previous: Sentence | None = None
    for sentence in mend_sentences(text, sentences, language):
        tree = sentence.tree if sentence.tree is not None and len(sentence.tree) <= LONGEST_SENTENCE else None
        found = list(find_connectives(tree, scheme)) if tree is not None else []
        division = None
        if tree is not None and found:
            mentions.extend(_mentions(tree, found, previous))
            division = _best_division(text, tree, found, sentence)
        cut = sentence.end if division is None else division.at
        if edus:
            relations.append(_link(tree, found, cut))
        edus.append((sentence.start, cut))
        if division is not None:
            edus.append((division.at, sentence.end))
            relations.append(division.label)
        previous = sentence
    return Annotation(_tile(edus, len(text)), relations, mentions)


def mend_sentences(text: str, sentences: Iterable[Sentence], language: Language = ENGLISH) -> Iterator[Sentence]:
    """The sentences with closing quotes and brackets where they belong: with the words they close.

    A sentence without a letter or digit is none: it goes with the sentence before it, or with the first one.
    """
    closing = language.closing
    held: Sentence | None = None
    lead: Sentence | None = None
    for sentence in sentences:
        start = sentence.start
        while held is not None and start == held.end and text[start : start + 1] in closing and start < sentence.end:
            following = text[start + 1 : start + 2]
            if following and not following.isspace() and following not in closing:
                break  # an opening quote right after a full stop
            start += 1
            held = replace(held, end=start)
        start += len(text[start : sentence.end]) - len(text[start : sentence.end].lstrip())
        if start == sentence.end:
            continue
        if not _has_words(text, start, sentence.end):
            if held is not None:
                held = replace(held, end=sentence.end)
            elif lead is None:
                lead = Sentence(start, sentence.end, None)
            continue
        if held is not None:
            yield held
        held = replace(sentence, start=start if lead is None else lead.start)
        lead = None
    last = held or lead
    if last is not None:
        yield last


def _has_words(text: str, start: int, end: int) -> bool:
    return any(map(str.isalnum, text[start:end]))


def _mentions(tree: Tree, found: list[Connective], previous: Sentence | None) -> Iterable[Mention]:
    for connective in found:
        if connective.arg1 is not None:
            arg1, kind = _hull(tree, connective.arg1), "intra"
        elif previous is not None:
            arg1, kind = (previous.start, previous.end), "inter"
        else:
            continue
        at = connective.token
        arg2 = _hull(tree, connective.arg2)
        yield Mention(connective.relation, tree.starts[at], tree.ends[at], arg1, arg2, kind)


def _best_division(text: str, tree: Tree, found: list[Connective], sentence: Sentence) -> _Division | None:
    """The most even division of a sentence; of two equal ones, that of the rarer category."""
    divisions = [division for item in found if (division := _division(text, tree, item, sentence)) is not None]
    return max(divisions, key=lambda division: (division.evenness, -_rank(division.label)), default=None)


def _division(text: str, tree: Tree, connective: Connective, sentence: Sentence) -> _Division | None:
    """Where a connective cuts its sentence, if its arguments lie on the two sides of one cut."""
    if connective.arg1 is None:
        return None
    first, second = connective.arg1, connective.arg2 | {connective.token}
    arg1_first = min(first) < min(second)
    if arg1_first:
        # A coordinator or particle right before the marker ("and then") goes with Arg2.
        cut = _before_openings(tree, min(second))
        whole = max(first) < cut
    else:
        cut = _after_closings(tree, max(second) + 1)
        whole = min(first) >= cut
    if not whole or not 0 < cut < len(tree):
        return None
    at = tree.starts[cut]
    if not _has_words(text, sentence.start, at) or not _has_words(text, at, sentence.end):
        return None
    evenness = min(at - sentence.start, sentence.end - at)
    return _Division(at, relation(connective.relation, arg1_first=arg1_first), evenness)


def _link(tree: Tree | None, found: list[Connective], cut: int) -> str:
    """The relation between the EDU before this sentence and the sentence's first EDU."""
    if tree is None:
        return UNKNOWN
    opening = [item for item in found if item.arg1 is None and tree.starts[item.token] < cut]
    if not opening:
        return UNKNOWN
    best = min(opening, key=lambda item: _rank(item.relation))
    return relation(best.relation, arg1_first=True)


def _rank(label: str) -> int:
    return _RANK[category_of(label) or "conjunction"]


def _hull(tree: Tree, tokens: Iterable[int]) -> Span:
    ordered = sorted(tokens)
    return tree.starts[ordered[0]], tree.ends[ordered[-1]]


def _before_openings(tree: Tree, token: int) -> int:
    """Step left over opening quotes and brackets, which belong to what they open."""
    while token > 0 and tree.words[token - 1] in tree.language.opening and tree.starts[token] == tree.ends[token - 1]:
        token -= 1
    return token


def _after_closings(tree: Tree, token: int) -> int:
    """Step right over the punctuation that closes a clause."""
    while token < len(tree) and tree.is_punctuation(token) and tree.starts[token] == tree.ends[token - 1]:
        token += 1
    return token


def _tile(edus: list[Span], length: int) -> list[Span]:
    """Stretch each EDU to the start of the next, so that they cover the text from its first to its last character."""
    starts = [0, *(start for start, _ in edus[1:])] if edus else []
    return list(zip(starts, [*starts[1:], length], strict=True)) if edus else []
