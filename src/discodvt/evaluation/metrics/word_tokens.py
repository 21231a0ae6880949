"""Texts as arrays of integers: NLTK word tokens sentence by sentence, each distinct token interned once.

The words are those of `discodvt.corpus.words`. Lists of tokens are taken as they are. Every metric counts on the
arrays, never on the strings.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discodvt.corpus.words import tokenize
from discodvt.errors import BadRequest
from discodvt.evaluation.metric import Ints
from discodvt.executors import Executor, ThisProcess, run_shards

TEXTS_PER_SHARD = 512
Text: TypeAlias = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class WordTokens:
    """Texts laid end to end: token t of the whole has the id `ids[t]` and belongs to text `text[t]`."""

    ids: NDArray[np.int32]
    text: NDArray[np.int32]
    lengths: Ints
    vocabulary: tuple[str, ...]  # shared by all that were interned together
    tokenizer: str

    def __len__(self) -> int:
        return len(self.lengths)

    def lower(self) -> "WordTokens":
        """The same texts in lower case: ids of tokens that differ only in case become one."""
        first: dict[str, int] = {}
        same = [first.setdefault(token.lower(), number) for number, token in enumerate(self.vocabulary)]
        return replace(self, ids=np.array(same, dtype=np.int32)[self.ids])


def token_spans(text: str) -> list[tuple[int, int]]:
    """Where each token of `tokenize` stands in the text; NLTK writes a double quote as `` or '', the text may not."""
    spans, at = [], 0
    for token in tokenize(text):
        start = text.find(token, at)
        if token in ("``", "''"):
            quote = text.find('"', at)
            if quote >= 0 and (start < 0 or quote < start):
                start, token = quote, '"'
        spans.append((start, start + len(token)))
        at = start + len(token)
    return spans


def as_line(text: Text) -> str:
    """A text as one string: what libraries with tokenisers of their own take."""
    return text if isinstance(text, str) else " ".join(text)


def read_texts(texts: Sequence[Text], *, called: str, executor: Executor | None = None) -> list[Sequence[str]]:
    """Each text as a list of tokens; an empty one, or anything but texts or lists of tokens, is refused.

    Cutting texts into words takes most of the time of an evaluation: an executor does it in shards.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise BadRequest(f"{called}: expected a list of texts or of token lists, found {type(texts).__name__}")
    if not texts:
        raise BadRequest(f"{called}: the list is empty; give at least one text")
    if len({isinstance(text, str) for text in texts}) > 1:
        raise BadRequest(f"{called}: texts and token lists are mixed; give one kind")
    tokens = _in_shards(texts, executor or ThisProcess()) if isinstance(texts[0], str) else list(texts)
    for number, each in enumerate(tokens, start=1):
        if len(each) == 0:
            raise BadRequest(f"{called}: text {number} of {len(tokens)} is empty; remove it with its counterpart")
    return tokens


def _in_shards(texts: Sequence[Text], executor: Executor) -> list[Sequence[str]]:
    starts = range(0, len(texts), TEXTS_PER_SHARD)
    shards = ((first, texts[first : first + TEXTS_PER_SHARD]) for first in starts)
    named = "texts {0[0]} and on".format
    done = run_shards(executor, _tokenize_shard, shards, name=named, kept=False)
    found = {first: words for (first, _), words in done}
    return list(chain.from_iterable(found[first] for first in starts))


def _tokenize_shard(shard: tuple[int, Sequence[Text]]) -> list[Sequence[str]]:
    return [tokenize(as_line(text)) for text in shard[1]]


def intern(*groups: Sequence[Sequence[str]], tokenizer: str = "given") -> list[WordTokens]:
    """Number the tokens of all groups together; each group becomes arrays with ids that mean the same in all."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    arrays = []
    for group in groups:
        lengths = np.array([len(text) for text in group], dtype=np.int64)
        every = map(numbers.__getitem__, chain.from_iterable(group))
        arrays.append((np.fromiter(every, dtype=np.int32, count=int(lengths.sum())), lengths))
    vocabulary = tuple(numbers)
    return [
        WordTokens(ids, np.repeat(np.arange(len(lengths), dtype=np.int32), lengths), lengths, vocabulary, tokenizer)
        for ids, lengths in arrays
    ]
