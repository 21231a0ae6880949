"""The content words of a prompt, which its story should have: candidates are ranked by them, and `prompt_bias` favours
their subwords while a story is written.

A word the story does not have yet is favoured by the first subword of its usual spelling; the first of them, mostly the
hero, more than others. A word of several subwords that has been begun, in whatever subwords, is favoured by those that
go on with it, and a name (with a capital, and rare) is ended where it ends: so it is spelled as in the prompt.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate, chain, islice
from typing import TYPE_CHECKING

import numpy as np

from discodvt.data.subwords import as_input
from discodvt.writing.sampling import Floats, Ints

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_WORD = re.compile(r"[^\W\d_]+")
# Closed-class words of English, and those that ask for a story; what is left of a prompt are its content words.
_NO_CONTENT = frozenset(
    "a about after all also an and any are as at be because been before but by can could did do does down for from had "
    "has have he her him his how i if in into is it its just like made make me my no not of off on once one or our out "
    "over said she so some that the their them then there these they this to too up upon very was we were what when "
    "where which who whom whose why will with would you your story tale tell write".split()
)
HERO = 2.0  # how much more the first of the words is favoured, and names
SPELLING = 4.0  # the same of subwords that go on with a word
MOST_FAVOURED, MOST_LETTERS = 1000, 64  # so that no prompt is slow; a longer run of letters is no word


def words_of(text: str) -> set[str]:
    """Words in small letters."""
    return {word.lower() for word in _WORD.findall(text)}


def content_words(prompt: str) -> list[str]:
    """Words of a prompt that say what the story is about, as they are written there."""
    found = dict.fromkeys(_WORD.findall(prompt))
    return [word for word in found if len(word) > 1 and word.lower() not in _NO_CONTENT]


class Spelling:
    """A word in all the subwords it can be made of, and how far the last symbols of a story have written it."""

    def __init__(self, word: str, tokenizer: "Tokenizer", *, is_name: bool = False) -> None:
        usual = tokenizer.encode(as_input(word), add_special_tokens=False)
        self._marked = "".join(usual.tokens)  # with the mark of the space before it
        self._ends = [self._from(start, tokenizer.token_to_id) for start in range(len(self._marked))]
        starts = accumulate(map(len, usual.tokens), initial=0)
        self._usual = {start: (symbol,) for start, symbol in zip(starts, usual.ids, strict=False)}
        self.first: int = usual.ids[0]
        self.is_one_subword = len(usual.ids) == 1
        self._starts = (0, 1) if is_name else (0,)  # a name also without the space, after a quotation mark
        self._written: set[int] = set()  # characters up to which it may have been written

    def _from(self, start: int, number: Callable[[str], int | None]) -> dict[int, int]:
        """Where the subwords end that go on from a character."""
        ends = range(start + 1, len(self._marked) + 1)
        return {symbol: end for end in ends if (symbol := number(self._marked[start:end])) is not None}

    def read(self, symbol: int) -> bool:
        """Take the next symbol of the story; whether the word ends with it."""
        begun = (*self._starts, *self._written)
        self._written = {self._ends[start][symbol] for start in begun if symbol in self._ends[start]}
        ended = len(self._marked) in self._written
        self._written.discard(len(self._marked))
        return ended

    def going_on(self) -> Iterator[int]:
        """Subwords that go on with the word where it has been begun: the usual one, else all."""
        return chain.from_iterable(self._usual.get(start) or self._ends[start] for start in self._written)


class PromptWords:
    """What a story is to have of its prompt; follows the story as it grows."""

    def __init__(self, prompt: str, tokenizer: "Tokenizer", bias: float) -> None:
        self._bias, self._read = bias, 0
        short = (word for word in content_words(prompt) if len(word) <= MOST_LETTERS)
        words = [word for word in islice(short, MOST_FAVOURED) if tokenizer.encode(word, add_special_tokens=False).ids]
        in_title = len(words) > 1 and all(word[0].isupper() for word in words)
        self._words = [_Word(word, tokenizer, is_first=word == words[0], in_title=in_title) for word in words]
        self._inside = _inside_words(tokenizer) if any(word.is_name for word in self._words) else None

    def favour(self, scores: Floats, symbols: Sequence[int]) -> None:
        """Change the logits [V] of what follows these symbols, which begin as those of the last call."""
        for symbol in symbols[self._read :]:
            for word in self._words:
                word.read(symbol)
        self._read = len(symbols)
        self._words = [word for word in self._words if not word.is_done]
        found: dict[int, float] = {}
        for word in self._words:
            for symbol, weight in word.favoured():
                found[symbol] = max(weight, found.get(symbol, 0.0))
        if any(word.is_name and word.has_ended for word in self._words):
            scores[self._inside] -= SPELLING * self._bias
        for symbol, weight in found.items():
            scores[symbol] += weight * self._bias


class _Word:
    """A content word in the ways it may be written, and whether the story has it."""

    def __init__(self, word: str, tokenizer: "Tokenizer", *, is_first: bool, in_title: bool) -> None:
        small = Spelling(word.lower(), tokenizer)
        has_capital = word != word.lower()
        self.is_name = has_capital and not in_title and not small.is_one_subword
        as_typed = [Spelling(word, tokenizer, is_name=self.is_name)] if has_capital else []
        self._favoured = as_typed if self.is_name else [*as_typed, small]
        self._read_only = [small] if self.is_name else []  # the first word of a prompt need be no name
        self._weight = HERO if is_first or self.is_name else 1.0
        self.has_ended = self._is_written = False

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to be done for it: the story has it, and it cannot be spelled wrongly."""
        return self._is_written and all(spelling.is_one_subword for spelling in self._favoured)

    def read(self, symbol: int) -> None:
        ended = [spelling.read(symbol) for spelling in (*self._favoured, *self._read_only)]
        self.has_ended = any(ended[: len(self._favoured)])
        self._is_written |= any(ended)

    def favoured(self) -> Iterator[tuple[int, float]]:
        """Symbols, and how much each is favoured."""
        for spelling in self._favoured:
            if not self._is_written:
                yield spelling.first, self._weight
            if not spelling.is_one_subword:
                yield from ((symbol, SPELLING) for symbol in spelling.going_on())


@cache
def _inside_words(tokenizer: "Tokenizer") -> Ints:
    """Subwords that go on with a word."""
    mark = tokenizer.encode(as_input("a"), add_special_tokens=False).tokens[0][0]
    inside = [number for subword, number in tokenizer.get_vocab().items() if subword.isalpha() and subword[0] != mark]
    return np.array(inside, dtype=np.int64)
