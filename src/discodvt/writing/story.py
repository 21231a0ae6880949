"""The record of a story, from the writer to JSONL to the report: text, plan, and the text each code governs.

Code k of a plan governs the subwords k * n to (k + 1) * n - 1, n the tokens of a code: the latent of position m is
added where subword m is predicted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest

NO_CODE = -1  # text written past the end of its plan
KEYS = ("id", "prompt", "story", "plan", "seed", "model", "finish", "segments")


@dataclass(frozen=True, slots=True)
class Request:
    """One story to write. `seed`, `index` and the prompt key its random stream; without a `plan` one is sampled.

    `locks` are codes of the sampled plan that are given, (place, code) counted from 0; `begin_with` is how the story
    begins. What is sampled beside them is sampled from the same streams as without them. `favour` makes a marker
    likelier at a place of the plan; with `scored` the story's notes have the log-probabilities of plan and text.
    """

    prompt: str
    index: int = 0
    plan: tuple[int, ...] | None = None
    seed: int = 0
    id: str = ""
    locks: tuple[tuple[int, int], ...] = ()
    begin_with: str = ""
    favour: tuple[int, str] | None = None  # place, marker
    scored: bool = False


class Segment(NamedTuple):
    """The characters of a story a code governs; a story's segments tile its text, in order."""

    code: int  # NO_CODE past the plan
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Story:
    """A written story and how it came to be; in JSON the text is called `story`."""

    id: str
    prompt: str
    text: str
    plan: tuple[int, ...]  # empty, as are the segments, for a model without plans
    seed: int
    model: str
    finish: str  # "end", or "length" where the length limit cut it
    segments: tuple[Segment, ...] = ()
    index: int = field(default=0, compare=False)  # of its request; not stored
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)  # further keys: scores, candidates, a wish

    def as_line(self) -> str:
        """The story as a line of JSONL."""
        record = {"id": self.id, "prompt": self.prompt, "story": self.text, "plan": self.plan, "seed": self.seed}
        record |= {"model": self.model, "finish": self.finish, "segments": self.segments} | dict(self.notes)
        return json.dumps(record, ensure_ascii=False) + "\n"

    @classmethod
    def from_line(cls, line: str, place: str) -> "Story":
        """A story from its JSON; an invalid line is an error that says where."""
        try:
            value = json.loads(line)
            texts = {name: value[name] for name in ("id", "prompt", "story", "model", "finish")}
            if not all(isinstance(text, str) for text in texts.values()):
                raise TypeError(f"one of {', '.join(texts)} is not text")
            return cls(
                text=texts.pop("story"),
                plan=tuple(int(code) for code in value["plan"]),
                seed=int(value["seed"]),
                segments=tuple(
                    Segment(int(code), int(start), int(end)) for code, start, end in value.get("segments", ())
                ),
                notes={name: value[name] for name in value if name not in KEYS},
                **texts,
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else error
            raise BadRequest(
                f"{place}: no story of `discodvt generate` ({reason}); repair or remove the line"
            ) from None


def cut_to_sentence(text: str, earliest: int) -> str:
    """Text that was broken off, up to its last sentence end; all of it where none comes after `earliest`."""
    start, _ = split_sentences(text + " The")[-1]  # a sentence has ended where another can begin
    return text[:start].rstrip() if start > max(earliest, 0) else text  # never to nothing


def segments_of(plan: Sequence[int], starts: Sequence[int], length: int, tokens_per_code: int) -> tuple[Segment, ...]:
    """Segments of a text of `length` characters whose subword i begins at `starts[i]`; codes without text have none."""
    if not plan:
        return ()
    codes = [*plan, NO_CODE]
    edges = [min(max(start, 0), length) for start in starts[::tokens_per_code][: len(codes)]] + [length]
    spans = zip(codes, edges, edges[1:], strict=False)
    return tuple(Segment(code, start, end) for code, start, end in spans if end > start)
