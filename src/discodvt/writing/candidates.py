"""The best of k candidates, and wishes for a relation at a place of the plan.

The score of a candidate is the sum of three numbers, which the story's record keeps with all k candidates:
- `plan`: the mean log-probability of its codes under the prior (left out where the plan was given);
- `text`: the mean log-probability of its subwords under the generator, without temperature and penalty;
- `words`: the share of the prompt's content words that the story has.

A wish ("a `because` at place 5") first writes the story without it. Candidates keep its text before the place and get
there a code that the prior finds likely and whose dictionary entry has the marker; the marker's subwords are made
likelier within the segment and the next. The annotator then says which candidates have the relation there or at a
place beside it.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from discodvt.discourse.labels import MARKERS
from discodvt.errors import BadRequest
from discodvt.writing.control import alternatives, check_place, latent_of, redraw, rewrite, spans
from discodvt.writing.dictionary import CodeDictionary
from discodvt.writing.prompt_words import content_words, words_of
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.story import Request, Story

if TYPE_CHECKING:
    from discodvt.discourse import Annotation, Annotator
    from discodvt.writing.writer import StoryWriter

CANDIDATES = 8  # of a wish
WISHED_CODES = 4  # different codes tried at the place of a wish
HERE, BESIDE, NOWHERE = "here", "beside", "nowhere"
CLOSENESS = {HERE: 2, BESIDE: 1, NOWHERE: 0}


class Wish(NamedTuple):
    """A marker that is wanted at a place of the plan, counted from 0."""

    place: int
    marker: str

    def checked(self) -> "Wish":
        if self.marker not in MARKERS:
            known = ", ".join(MARKERS)
            raise BadRequest(f"`wish`: {self.marker!r} is no marker; give one of {known}", "wish")
        if self.place < 0:
            raise BadRequest(f"`wish`: place {self.place}; places are counted from 0", "wish")
        return self


def scores_of(story: Story) -> dict[str, float]:
    """What a scored story is ranked by, and its sum, `total`."""
    wanted = {word.lower() for word in content_words(story.prompt)}
    found: dict[str, float] = dict(story.notes.get("log_probs", {}))
    if wanted:
        found["words"] = len(wanted & words_of(story.text)) / len(wanted)
    return {**found, "total": sum(found.values())}


def choose(candidates: Sequence[Story], found: Sequence[str] | None = None) -> Story:
    """The candidate with the highest score, among those closest to a wish; its notes have all candidates."""
    closeness = [0] * len(candidates) if found is None else [CLOSENESS[each] for each in found]
    scores = [scores_of(story) for story in candidates]
    best = max(range(len(candidates)), key=lambda which: (closeness[which], scores[which]["total"], -which))
    records: list[dict[str, Any]] = [
        {"story": story.text, "plan": story.plan, "finish": story.finish, "segments": story.segments, "scores": score}
        | ({} if found is None else {"found": found[which]})
        for which, (story, score) in enumerate(zip(candidates, scores, strict=True))
    ]
    notes = {"scores": scores[best], "chosen": best, "candidates": records}
    return replace(candidates[best], notes=notes)


def wished_requests(
    writer: "StoryWriter",
    base: Story,
    wish: Wish,
    count: int,
    *,
    dictionary: CodeDictionary,
    first_index: int,
    asked: Request | None = None,
) -> list[Request]:
    """Requests for `count` candidates of a wish, which keep what `base` has before its place.

    What `asked` fixes stays: its beginning, its locks (also one at the place), its plan but for the code there.
    """
    asked = asked or Request(base.prompt)
    check_place(wish.place, len(base.plan), "wish")
    locked = dict(asked.locks)
    codes = [locked[wish.place]] if wish.place in locked else wished_codes(writer, base, wish, dictionary)

    def candidate(number: int) -> Request:
        code = codes[number % len(codes)]
        if asked.plan is not None:
            request = rewrite(base, wish.place, code=code)
        else:
            request = redraw(base, wish.place, locks=[*(locked | {wish.place: code}).items()])
        begin_with = max(request.begin_with, asked.begin_with.strip(), key=len)
        return replace(request, begin_with=begin_with, index=first_index + number, favour=wish, scored=True)

    return [candidate(number) for number in range(count)]


def wished_codes(writer: "StoryWriter", base: Story, wish: Wish, dictionary: CodeDictionary) -> list[int]:
    """The codes to try at a place: likely under the prior, and with the marker in their phrases."""
    likely = alternatives(writer, base.prompt, base.plan, wish.place)
    fitting = [(each.probability * dictionary.frequency(each.code, wish.marker), each.code) for each in likely]
    ranked = [code for value, code in sorted(fitting, reverse=True) if value > 0]
    return [*ranked, *(each.code for each in likely if each.code not in ranked)][:WISHED_CODES]


class Found(NamedTuple):
    """Where a wished marker stands, and its characters."""

    where: str  # HERE, BESIDE or NOWHERE
    start: int = 0
    end: int = 0


def where_found(annotator: "Annotator", stories: Sequence[Story], wish: Wish) -> list[str]:
    """Whether each story has the marker as a connective at the place, at a place beside it, or nowhere there."""
    annotations = annotator.annotate_many(story.text for story in stories)
    return [find_wished(story, each, wish).where for story, each in zip(stories, annotations, strict=True)]


def find_wished(story: Story, annotation: "Annotation", wish: Wish) -> Found:
    """The wished marker of an annotated story that is closest to its place."""
    places = spans(story.plan, story.segments)
    for where, near in ((HERE, (0,)), (BESIDE, (-1, 1))):
        for place in (wish.place + step for step in near):
            span = places[place] if 0 <= place < len(places) else None
            for mention in annotation.mentions:
                if span and mention.marker == wish.marker and span[0] <= mention.start < span[1]:
                    return Found(where, mention.start, mention.end)
    return Found(NOWHERE)


def write_best(
    writer: "StoryWriter",
    requests: Iterable[Request],
    params: SamplingParams,
    *,
    candidates: int,
    wish: Wish | None = None,
    batch_size: int = 32,
) -> Iterator[Story]:
    """The best of the candidates of each request, in order.

    Candidate c of request i has the random stream of index i * candidates + c: without a wish they are the stories
    that `generate -n K` writes.
    """
    if candidates < 1:
        raise BadRequest(f"`best_of` {candidates}: expected 1 or more", "best_of")
    if wish is not None and params.words is not None:
        raise BadRequest("`wish` and `words`: wishes are for stories within the positions", ("wish", "words"))
    if wish is not None:
        latent_of(writer)
    waiting = iter(requests)
    while some := list(islice(waiting, max(1, batch_size // candidates))):
        starts = {request.index * candidates: request for request in some}
        if wish is not None:
            written = _write_wished(writer, starts, params, wish=wish, candidates=candidates, batch_size=batch_size)
        else:
            asked = [
                replace(request, index=start + number, scored=True)
                for start, request in starts.items()
                for number in range(candidates)
            ]
            written = _written(writer, asked, params, batch_size)
        for start, request in starts.items():
            group = [written[number] for number in range(start, start + candidates) if number in written]
            found = where_found(wish_annotator(), group, wish) if wish is not None else None
            best = replace(choose(group, found), index=request.index)
            if wish is not None and found is not None:
                told = {"place": wish.place, "marker": wish.marker, "found": found[best.notes["chosen"]]}
                best = replace(best, notes={"wish": told, **best.notes})
            yield best


def _write_wished(
    writer: "StoryWriter",
    starts: Mapping[int, Request],
    params: SamplingParams,
    *,
    wish: Wish,
    candidates: int,
    batch_size: int,
) -> dict[int, Story]:
    """For each request the story without the wish, then the other candidates, by index."""
    _, most = writer.lengths.codes(params.min_codes, params.max_codes)
    for request in starts.values():
        check_place(wish.place, most if request.plan is None else len(request.plan), "wish")
    asked = [replace(request, index=start, scored=True) for start, request in starts.items()]
    written = _written(writer, asked, params, batch_size)
    dictionary, further = CodeDictionary.of(writer.directory), []
    for start, request in starts.items():
        base = written[start]
        reached = [span for span in spans(base.plan, base.segments) if span is not None]
        codes = len(base.plan if base.finish == "end" else reached)  # one that its limit ended cannot go on
        if wish.place < codes:
            further += wished_requests(
                writer, base, wish, candidates - 1, dictionary=dictionary, first_index=start + 1, asked=request
            )
        else:
            warnings.warn(f"`wish`: place {wish.place} lies behind the story, which has {codes} codes", stacklevel=2)
    return written | _written(writer, further, params, batch_size)


def _written(
    writer: "StoryWriter", requests: Iterable[Request], params: SamplingParams, batch_size: int
) -> dict[int, Story]:
    return {story.index: story for story in writer.write_many(requests, params, batch_size=batch_size)}


@cache
def wish_annotator() -> "Annotator":
    """The annotator that looks for wishes, opened when first asked for."""
    from discodvt.discourse import Annotator

    return Annotator()
