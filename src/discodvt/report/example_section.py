"""Stories to the same prompt side by side, with what they repeat marked as rep-l counts it.

A token is repeated when it is among the 16 (8) tokens before it. Tokens that repeat together, at one distance, are
a repeated phrase and marked as one. Prompts are drawn by the hash of their text, so nobody chose them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from discodvt.corpus.words import tokenize
from discodvt.evaluation.metrics.repetition import RANGES, LookBack, nearest_repeats, repetition
from discodvt.evaluation.metrics.word_tokens import intern, token_spans
from discodvt.report.pages import ReportSection
from discodvt.report.systems import ReportedSystem

NEAR, FAR = RANGES


class Repeat(NamedTuple):
    """Characters start to end repeat `tokens` tokens found `distance` tokens before."""

    start: int
    end: int
    tokens: int
    distance: int


class MarkedPiece(NamedTuple):
    """A piece of a shown story; one that is marked has a kind and a tip."""

    text: str
    kind: str = ""
    tip: str = ""


class ShownStory(NamedTuple):
    system: str
    facts: str
    pieces: Sequence[MarkedPiece]


@dataclass(frozen=True, slots=True)
class Examples:
    """Prompts, each with the stories of all systems."""

    macro: ClassVar[str] = "examples"  # of templates/parts.html

    prompts: Sequence[tuple[str, Sequence[ShownStory]]]


def repeats(story: str, *, look_back: LookBack = "paper") -> list[Repeat]:
    """What a story repeats within the longer range of rep-l, phrase by phrase."""
    spans = token_spans(story)
    (tokens,) = intern([tokenize(story)], tokenizer="nltk")
    reach = FAR - (look_back == "code")
    found: list[Repeat] = []
    last = None  # the token before, where it was repeated
    for at, distance in enumerate(nearest_repeats(tokens).tolist()):
        if distance > reach:
            last = None
        elif last == distance:
            found[-1] = found[-1]._replace(end=spans[at][1], tokens=found[-1].tokens + 1)
        else:
            found.append(Repeat(*spans[at], 1, distance))
            last = distance
    return found


def marked_pieces(story: str, *, look_back: LookBack = "paper") -> Iterator[MarkedPiece]:
    """The story piece by piece, its repeated tokens and phrases marked."""
    at = 0
    near = NEAR - (look_back == "code")
    for start, end, tokens, distance in repeats(story, look_back=look_back):
        counted = f"counted by rep-{NEAR} and rep-{FAR}" if distance <= near else f"counted by rep-{FAR}"
        what = "the same token" if tokens == 1 else f"the same {tokens} tokens"
        tip = f"{what} {distance} {'token' if distance == 1 else 'tokens'} before; {counted}"
        kind = f"{'phrase' if tokens > 1 else 'token'}{' near' if distance <= near else ''}"
        yield MarkedPiece(story[at:start])
        yield MarkedPiece(story[start:end], kind, tip)
        at = end
    yield MarkedPiece(story[at:])


def example_section(systems: Sequence[ReportedSystem], *, count: int) -> ReportSection | None:
    """The same prompts for every system that kept its stories, the reference first; None without any."""
    held = {system: {_key(pair): pair for pair in reversed(list(system.pairs()))} for system in _with_stories(systems)}
    if not held or count == 0:
        return None
    shared = set.intersection(*(set(pairs) for pairs in held.values()))
    if not shared:
        return None
    look_back: LookBack = next(iter(held)).evaluations[0].config["look_back"]
    reference = next((system for system in held if system.is_reference), None)
    shown = []
    for key in sorted(shared, key=_draw)[:count]:
        columns = [(reference.name if reference else "reference", key[1])]
        columns += [(system.name, pairs[key]["story"]) for system, pairs in held.items() if system is not reference]
        shown.append((_short(key[0]), [_shown(name, story, look_back) for name, story in columns]))
    lead = (
        f"Stories to the same prompts, drawn by the prompts' hashes. Underlined tokens are among the {FAR} tokens "
        f"before them (solid: among the {NEAR} before), as rep-l counts them; filled ones repeat as a phrase."
    )
    return ReportSection("examples", "Side by side", lead, [Examples(shown)])


def _with_stories(systems: Sequence[ReportedSystem]) -> Iterator[ReportedSystem]:
    return (system for system in systems if any(True for _ in system.pairs()))


def _key(pair: dict[str, str | None]) -> tuple[str, str]:
    return pair["prompt"] or "", pair["reference"] or ""


def _draw(key: tuple[str, str]) -> bytes:
    return hashlib.sha256("\n".join(key).encode()).digest()


def _short(prompt: str, limit: int = 240) -> str:
    return prompt if len(prompt) <= limit else prompt[:limit].rsplit(" ", 1)[0] + " …"


def _shown(name: str, story: str, look_back: LookBack) -> ShownStory:
    (tokens,) = intern([tokenize(story)], tokenizer="nltk")
    near, far = repetition(tokens, look_back=look_back).values.tolist()
    facts = f"{len(tokens.ids)} tokens, rep-{NEAR} {100 * near:.1f}%, rep-{FAR} {100 * far:.1f}%"
    return ShownStory(name, facts, list(marked_pieces(story, look_back=look_back)))
