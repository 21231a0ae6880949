"""Sentences by rule: fast, no model, no downloads. Reads a text, gives the character spans of its sentences.

The spans tile the text: whitespace belongs to the sentence before it (leading whitespace to the first). A blank line
always ends a sentence; otherwise a sentence ends at `.`, `!`, `?` or an ellipsis, with the quotes and brackets that
close after it, where whitespace follows and neither the word before (a title, an initial) nor the word after (a small
letter after a quote: `"Stop!" he said`) forbids it. One pass, linear in the text.
"""

import re
from collections.abc import Iterator

# What comes before a full stop that may not end a sentence: before a name, before a number, before anything.
BEFORE_NAME = re.compile(
    r"mr|mrs|ms|messrs|mme|mlle|dr|ste?|prof|rev|hon|cap?t|col|gen|lt|sgt|maj|cmdr|adm|gov|sen|rep|pres|supt|fr|br|mt|ft"
    r"|vs|viz|cf|e\.g|i\.e|eg|ie"
)
BEFORE_NUMBER = re.compile(r"nos?|vols?|ch|chap|figs?|pp?|art|sec|jan|feb|apr|aug|sept?|oct|nov|dec|approx|ca?|bk|eq")
BEFORE_ANYTHING = re.compile(r"etc|jr|sr|inc|co|ltd|corp|bros|dept|est|esq|(?:[a-z]\.)+[a-z]|ph\.d")

_CLOSERS = "\"'”’»)\\]}*_"
_LONGEST_WORD = 16  # no abbreviation is longer: how far to look back from a full stop

# Possessive quantifiers and the look-behinds keep this linear: a run of stops is tried once, from its first character.
_STOP = re.compile(
    rf"""
    (?P<blank> \n [^\S\n]*+ \n \s*+ )
    | (?<![.!?…]) (?<!\.\ )
      (?P<mark> \.(?:\ \.)++ | [.!?…]++ )
      (?: [{_CLOSERS}]++ | \ ''(?=\s|$) )*+
      (?= \s | $ )
    | [。！？]++ [」』”’）)]*+
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*+")
_LAST_WORD = re.compile(r"[^\s\"'“”‘’«»()\[\]{}*_—–-]+$")
_NEXT_WORD = re.compile(r"[\"'“‘«(\[{*_`—–-]{0,8}([\w']{0,8})")


def split_sentences(text: str) -> list[tuple[int, int]]:
    """The (start, end) character spans of the sentences; together they are the whole text."""
    return list(iter_sentences(text))


def iter_sentences(text: str) -> Iterator[tuple[int, int]]:
    """The same spans one at a time, for callers that need only the first few."""
    start, first = 0, _end_of_space(text, 0)  # `first`: where the sentence's first word begins
    for stop in _STOP.finditer(text, first):
        if stop.start() < first:  # a blank line that already went with the sentence before it
            continue
        after = _end_of_space(text, stop.end())
        if after < len(text) and _ends_sentence(text, first, stop, after):
            yield start, after
            start = first = after
    if start < len(text):
        yield start, len(text)


def first_sentence(text: str) -> tuple[str, str]:
    """The first sentence and what is left, both without outer whitespace."""
    text = text.strip()
    end = next(iter_sentences(text), (0, 0))[1]
    return text[:end].strip(), text[end:]


def cut_to_words(text: str, max_words: int) -> str:
    """The longest run of whole sentences from the start with at most `max_words` words; empty where none fits."""
    words = (word.end() for word in re.finditer(r"\S+", text))
    limit = next((end for count, end in enumerate(words, start=1) if count == max_words), len(text))
    kept = 0
    for start, end in iter_sentences(text):
        if start + len(text[start:end].rstrip()) > limit:
            break
        kept = end
    return text[:kept].rstrip()


def _ends_sentence(text: str, first: int, stop: re.Match[str], after: int) -> bool:
    mark = stop["mark"]
    if mark is None:
        return True
    following = _word_at(text, after)
    small = following[:1].islower()
    if mark == "." and stop.end() == stop.end("mark"):
        return _full_stop(text, first, stop.start(), following)
    if mark != "." and set(mark) <= {".", "…", " "}:  # an ellipsis; `I` is a capital anywhere
        return bool(following) and not small and following.split("'")[0] != "I"
    return not small


def _full_stop(text: str, first: int, stop: int, following: str) -> bool:
    """Whether a lone `.` with nothing closing after it ends the sentence."""
    found = _LAST_WORD.search(text, max(first, stop - _LONGEST_WORD), stop)
    word = found[0] if found else ""
    plain = word.lower()
    if BEFORE_NAME.fullmatch(plain):
        return False
    if BEFORE_NUMBER.fullmatch(plain):
        return not following[:1].isdigit()
    if BEFORE_ANYTHING.fullmatch(plain):
        return following[:1].isupper()
    if len(word) == 1 and word.isupper() and word != "I":
        return False  # an initial
    if word.isdigit() and stop - len(word) == first:
        return False  # the number of a list item
    return not (following[:1].islower() and "." in word)


def _word_at(text: str, start: int) -> str:
    found = _NEXT_WORD.match(text, start)
    return found[1] if found else ""


def _end_of_space(text: str, start: int) -> int:
    found = _SPACE.match(text, start)
    return found.end() if found else start
