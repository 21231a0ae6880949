"""Stories as subwords in flat arrays, prompts and stories cut to their lengths.

Rows of different lengths share one array: 273,000 stories of 512 subwords are 560 MB, and no objects. Training does not
hold them: it has shards of them on disk (`discodvt.data.token_shards`).
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from discodvt.corpus import ANNOTATED_SCHEMA, CORPUS_SCHEMA, read_rows
from discodvt.corpus.records import refuse_null
from discodvt.data.subwords import Symbols, as_input, encode
from discodvt.discourse.labels import LABELS
from discodvt.errors import BadRequest

Ints = NDArray[np.int32]
_LABEL_IDS = {label: number for number, label in enumerate(LABELS)}


class Column(Protocol):
    """Rows of different lengths, by number."""

    @property
    def lengths(self) -> NDArray[np.int64]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> Ints: ...


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Ints
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Iterable[Ints]) -> "Ragged":
        packing = Packing()
        for row in rows:
            packing.add(row)
        return packing.ragged()

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.offsets[row] : self.offsets[row + 1]]


class Packing:
    """Rows packed as they come, a block at a time, so that small arrays never pile up."""

    def __init__(self) -> None:
        self.blocks: list[Ints] = []
        self.pending: list[Ints] = []
        self.lengths = array("q")

    def add(self, row: Ints) -> None:
        self.pending.append(row)
        self.lengths.append(len(row))
        if len(self.pending) == 1024:
            self.blocks.append(np.concatenate(self.pending))
            self.pending = []

    def ragged(self) -> Ragged:
        values = np.concatenate([*self.blocks, *self.pending, np.empty(0, dtype=np.int32)])
        return Ragged(values.astype(np.int32, copy=False), np.cumsum([0, *self.lengths], dtype=np.int64))


@dataclass(frozen=True)
class Tokens:
    """Story i: `prompts[i]` is x, `stories[i]` is y1 .. yM, both between their symbols; a cut story has no end."""

    prompts: Column
    stories: Column
    edus: Column  # boundaries over decoder input positions, one more than EDUs; empty rows without annotation
    relations: Column  # label ids, one for each pair of neighbouring EDUs, -100 where one of them was cut away
    cut_prompts: int = 0  # how many were longer than what is kept
    cut_stories: int = 0

    def __len__(self) -> int:
        return len(self.stories)

    @cached_property
    def story_lengths(self) -> NDArray[np.int64]:
        """Decoder positions of each story."""
        return self.stories.lengths - 1

    @cached_property
    def pair_counts(self) -> NDArray[np.int64]:
        """Pairs of each story that count."""
        return np.array([np.count_nonzero(self.relations[row] >= 0) for row in range(len(self))], dtype=np.int64)


class TokenSettings(NamedTuple):
    """How stories become tokens: the symbols around them, what is kept of each, what is read at all."""

    symbols: Symbols
    prompt_tokens: int
    story_tokens: int
    with_prompts: bool = True
    with_relations: bool = False


def read_tokens(
    path: Path,
    tokenizer: PreTrainedTokenizerBase,
    *,
    symbols: Symbols,
    prompt_tokens: int,
    story_tokens: int,
    with_prompts: bool = True,
    with_relations: bool = False,
    limit: int | None = None,
) -> Tokens:
    """Tokenise a split file. Rows with a blank story are left out; a split without any other is an error."""
    settings = TokenSettings(symbols, prompt_tokens, story_tokens, with_prompts, with_relations)
    tokens = tokenize_rows(path, tokenizer.backend_tokenizer, settings, take=limit)
    if not len(tokens):
        raise BadRequest(no_story(path))
    return tokens


def no_story(path: Path) -> str:
    return f"{path}: the split holds no story; prepare the corpus again"


def tokenize_rows(
    path: Path, tokenizer: Tokenizer, settings: TokenSettings, *, skip: int = 0, take: int | None = None
) -> Tokens:
    """Tokenise rows `skip` to `skip + take` of a split file; there may be no story among them."""
    symbols, prompt_tokens, story_tokens, with_prompts, with_relations = settings
    columns = {name: Packing() for name in ("prompts", "stories", "edus", "relations")}
    cut_prompts = cut_stories = 0
    schema = ANNOTATED_SCHEMA if with_relations else CORPUS_SCHEMA
    try:
        stories = _with_story(path, read_rows(path, schema, skip=skip, take=take), first=skip)
        while rows := list(islice(stories, 1024)):
            encoded = encode(tokenizer, (row["story"] for row in rows))
            prompts = encode(tokenizer, (row["prompt"] if with_prompts else "" for row in rows))
            for row, story, prompt in zip(rows, encoded, prompts, strict=True):
                if not story.ids:
                    continue
                given = prompt.ids[:prompt_tokens] if with_prompts and row["prompt"].strip() else []
                columns["prompts"].add(np.array([*symbols.prompt_start, *given, *symbols.prompt_end], dtype=np.int32))
                told = [symbols.story_start, *story.ids, symbols.story_end]
                columns["stories"].add(np.array(told, dtype=np.int32)[: story_tokens + 1])
                edus, relations = _spans(row, story, story_tokens) if with_relations else (_NONE, _NONE)
                cut_prompts += len(prompt.ids) > prompt_tokens
                cut_stories += len(story.ids) >= story_tokens
                columns["edus"].add(edus)
                columns["relations"].add(relations)
    except BadRequest as error:
        if with_relations and "no column" in str(error):
            raise BadRequest(f"{error}; the relation loss needs annotations: run `discodvt annotate` first") from None
        raise
    return Tokens(
        columns["prompts"].ragged(),
        columns["stories"].ragged(),
        columns["edus"].ragged(),
        columns["relations"].ragged(),
        cut_prompts,
        cut_stories,
    )


def edu_boundaries(token_ends: NDArray[np.int64], edu_ends: NDArray[np.int64]) -> Ints:
    """Where each EDU begins among decoder input positions `<s> y1 .. yM`: boundaries [S + 1], the last one M + 1.

    `token_ends` [M] and `edu_ends` [S] are character offsets, end excluded. A subword belongs to the EDU of its last
    character: whitespace stands at the front of a subword but at the end of an EDU. `<s>` belongs to the first EDU.
    EDUs past the kept subwords are empty.
    """
    owner = np.searchsorted(edu_ends, np.maximum(token_ends - 1, 0), side="right")  # [M] EDU of each subword
    starts = np.searchsorted(owner, np.arange(len(edu_ends) + 1), side="left") + 1  # position of y_m is m
    starts[0] = 0
    starts[-1] = len(token_ends) + 1
    return starts.astype(np.int32)


_NONE: Ints = np.empty(0, dtype=np.int32)


def _with_story(path: Path, rows: Iterator[dict[str, Any]], *, first: int) -> Iterator[dict[str, Any]]:
    """Rows whose story is not blank; a null is an error that names its row."""
    for number, row in enumerate(rows, start=first):
        refuse_null(row, ("prompt", "story"), path, number)
        if row["story"].strip():
            yield row


def _spans(row: dict[str, Any], story: Any, story_tokens: int) -> tuple[Ints, Ints]:
    """EDU boundaries and relation labels of one story, over the positions that were kept."""
    ends = np.array([edu["end"] for edu in row["edus"]], dtype=np.int64)
    if len(ends) == 0:
        return _NONE, _NONE
    shift = len(as_input(""))
    token_ends = np.array([end for _, end in story.offsets[: story_tokens - 1]], dtype=np.int64) - shift
    boundaries = edu_boundaries(token_ends, ends)
    unknown = [label for label in row["relations"] if label not in _LABEL_IDS]
    if unknown or len(row["relations"]) != len(ends) - 1:
        raise BadRequest(
            f"story {row['id']}: {len(ends)} EDUs with relations {row['relations'][:3]}...; annotate it again"
        )
    labels = np.array([_LABEL_IDS[label] for label in row["relations"]], dtype=np.int32)
    filled = np.diff(boundaries) > 0
    labels[~(filled[:-1] & filled[1:])] = -100
    return boundaries, labels
