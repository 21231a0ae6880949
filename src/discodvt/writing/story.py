"""A written story: its text, the plan behind it, and which part of the text each code governs.

Code k of a plan governs the subwords k * n to (k + 1) * n - 1, n the tokens of a code: the latent of position m is
added where subword m is predicted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from discodvt.corpus.sentences import split_sentences

NO_CODE = -1  # text written past the end of its plan


class Segment(NamedTuple):
    """The characters of a story a code governs; a story's segments tile its text, in order."""

    code: int  # NO_CODE past the plan
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WrittenStory:
    """A story. `finish` is "end" where the writer ended it, "length" where the limit did."""

    prompt: str
    text: str
    plan: tuple[int, ...]  # empty, as are the segments, for a writer without plans
    finish: Literal["end", "length"]
    segments: tuple[Segment, ...]
    seed: int
    index: int


def live_text(text: str, *, early: bool) -> str:
    """What of a growing text can be shown: early all of it, later whole sentences, because the last one may be cut."""
    text = text.strip()
    return text if early or not text else text[: split_sentences(text)[-1][0]].rstrip()


def cut_to_sentence(text: str, earliest: int) -> str:
    """Text that was broken off, up to its last sentence end; all of it where none comes after `earliest`."""
    start, _ = split_sentences(text + " The")[-1]  # a sentence has ended where another can begin
    return text[:start].rstrip() if start > earliest else text


def segments_of(plan: Sequence[int], starts: Sequence[int], length: int, tokens_per_code: int) -> tuple[Segment, ...]:
    """Segments of a text of `length` characters whose subword i begins at `starts[i]`; codes without text have none."""
    if not plan:
        return ()
    codes = [*plan, NO_CODE]
    edges = [min(max(start, 0), length) for start in starts[::tokens_per_code][: len(codes)]] + [length]
    spans = zip(codes, edges, edges[1:], strict=False)
    return tuple(Segment(code, start, end) for code, start, end in spans if end > start)
