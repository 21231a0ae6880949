"""Control over a story by its plan: write on from a place, swap a code, compare, read back what was written.

A rewrite is a request like every other: the plan, and the text before a place as the story's forced beginning. Code k
governs subwords 8k to 8k + 7 but reaches further, because the convolutions that stretch a plan overlap (`reach`). Text
before its segment is kept as text; keys and values of all of it are computed anew under the new plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from discodvt.errors import BadRequest
from discodvt.writing.decoding import log_softmax
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.story import NO_CODE, Request, Segment, Story

if TYPE_CHECKING:
    from discodvt.writing.latent import Latent
    from discodvt.writing.writer import StoryWriter


class Alternative(NamedTuple):
    """A code that could stand at a place, and the prior's probability of it after the codes before."""

    code: int
    probability: float


class Heard(NamedTuple):
    """A place of a plan: the code that was asked for, and the one the posterior reads there (NO_CODE: no text)."""

    place: int
    code: int
    heard: int


class AlignedPlace(NamedTuple):
    """What two stories have at one place of their plans."""

    place: int
    codes: tuple[int, int]
    texts: tuple[str, str]

    @property
    def same(self) -> bool:
        return self.texts[0] == self.texts[1]


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """The same seed with one code changed: both stories, aligned by code."""

    stories: tuple[Story, Story]
    places: tuple[AlignedPlace, ...]


def spans(plan: Sequence[int], segments: Sequence[Segment]) -> list[tuple[int, int] | None]:
    """The characters each code of a plan governs; None where it governs none."""
    found: list[tuple[int, int] | None] = []
    following = 0
    for code in plan:
        if following < len(segments) and segments[following].code == code:
            found.append((segments[following].start, segments[following].end))
            following += 1
        else:
            found.append(None)
    return found


def kept_text(story: Story, place: int) -> str:
    """The text before the code at a place, in whole words."""
    check_place(place, len(story.plan), "place")
    span = spans(story.plan, story.segments)[place]
    end = len(story.text) if span is None else span[0]
    if 0 < end < len(story.text) and story.text[end - 1].isalnum() and story.text[end].isalnum():
        end = max(story.text.rfind(" ", 0, end), 0)  # the place divides a word
    return story.text[:end].rstrip()


def rewrite(story: Story, place: int, *, code: int | None = None, seed: int | None = None) -> Request:
    """The request that writes a story anew from a place on, with another code there if one is given."""
    plan = story.plan if code is None else swapped(story.plan, place, code)
    return Request(
        story.prompt,
        index=story.index,
        plan=plan,
        seed=story.seed if seed is None else seed,
        id=story.id,
        begin_with=kept_text(story, place),
    )


def redraw(story: Story, place: int, *, locks: Sequence[tuple[int, int]] = (), seed: int | None = None) -> Request:
    """The request that keeps plan and text before a place, and draws the rest of the plan, but for locked codes."""
    before = [(at, code) for at, code in enumerate(story.plan[:place])]
    after = [(at, code) for at, code in locks if at >= place]
    return replace(rewrite(story, place, seed=seed), plan=None, locks=(*before, *after))


def swapped(plan: Sequence[int], place: int, code: int) -> tuple[int, ...]:
    """A plan with another code at a place."""
    check_place(place, len(plan), "place")
    return (*plan[:place], code, *plan[place + 1 :])


def check_place(place: int, codes: int, parameter: str) -> None:
    """Refuse a place that a plan does not have."""
    if not 0 <= place < codes:
        raise BadRequest(f"`{parameter}`: place {place}; the plan has places 0 to {codes - 1}", parameter)


def reach(writer: "StoryWriter", place: int = 3) -> range:
    """The subwords, counted from the first of its segment, whose latent a code changes; measured."""
    latent = latent_of(writer)
    length = (place + 4) * latent.tokens_per_code
    changed = [
        torch.nonzero((latent([0] * 32, length) != latent([0] * place + [code] + [0] * 32, length)).any(1))[:, 0]
        for code in range(1, latent.num_codes)
    ]
    first, last = min(int(each.min()) for each in changed), max(int(each.max()) for each in changed)
    return range(first - place * latent.tokens_per_code, last + 1 - place * latent.tokens_per_code)


@torch.inference_mode()
def alternatives(
    writer: "StoryWriter", prompt: str, plan: Sequence[int], place: int, *, top: int | None = None
) -> list[Alternative]:
    """The codes the prior would put at a place after those before it, the likeliest first; ends are not counted."""
    codes, engine = latent_of(writer).num_codes, writer.prior_engine
    if engine is None:
        raise BadRequest(f"{writer.directory}: no prior/ in it, so nothing says which codes are likely here")
    check_place(place, len(plan) + 1, "place")
    draft = writer.draft(Request(prompt, locks=tuple(enumerate(plan[:place]))), SamplingParams()).plan_draft
    assert draft is not None
    told = list(plan[:place])
    cache = engine.new_cache(1, len(draft.prompt) + draft.most + 1)
    cache.add_row(0, draft.prompt, None, told, draft.most + 1)
    logits = cache.step([told[-1] if told else engine.start], [place])[0].float().cpu().numpy()
    probabilities = np.exp(log_softmax(logits[:codes]))
    order = np.argsort(-probabilities, kind="stable")[:top]
    return [Alternative(int(code), float(probabilities[code])) for code in order]


def draw_code(writer: "StoryWriter", story: Story, place: int, *, seed: int) -> int:
    """Another code for a place, drawn from the prior: any but the one that is there."""
    check_place(place, len(story.plan), "place")
    others = [each for each in alternatives(writer, story.prompt, story.plan, place) if each.code != story.plan[place]]
    weights = np.array([each.probability for each in others])
    drawn = np.random.default_rng((abs(seed), place)).choice(len(others), p=weights / weights.sum())
    return others[int(drawn)].code


def counterfactual(
    writer: "StoryWriter", request: Request, place: int, code: int, params: SamplingParams | None = None
) -> Counterfactual:
    """Write a request, and again with one code of its plan changed; before the code's reach the two are the same."""
    (first,) = writer.write_many([request], params, batch_size=1)
    changed = replace(request, plan=swapped(first.plan, place, code), locks=())
    (second,) = writer.write_many([changed], params, batch_size=1)
    return Counterfactual((first, second), aligned(first, second))


def aligned(first: Story, second: Story) -> tuple[AlignedPlace, ...]:
    """Two stories place by place of their plans; the last place may be text past both plans."""
    texts = [_texts(story) for story in (first, second)]
    codes = [[*story.plan, *[NO_CODE] * len(texts[0] + texts[1])] for story in (first, second)]
    count = max(map(len, texts))
    padded = [each + [""] * (count - len(each)) for each in texts]
    return tuple(
        AlignedPlace(place, (codes[0][place], codes[1][place]), (padded[0][place], padded[1][place]))
        for place in range(count)
    )


def heard(writer: "StoryWriter", story: Story) -> list[Heard]:
    """The story read back by the posterior, code by code against its plan."""
    read = writer.plan_of(story.text)
    reached = [place for place, span in enumerate(spans(story.plan, story.segments)) if span is not None]
    return [
        Heard(place, story.plan[place], read[place] if place < len(read) and place in reached else NO_CODE)
        for place in range(len(story.plan))
    ]


def _texts(story: Story) -> list[str]:
    found = [story.text[slice(*span)] if span else "" for span in spans(story.plan, story.segments)]
    past = "".join(story.text[start:end] for code, start, end in story.segments if code == NO_CODE)
    return [*found, past] if past else found


def latent_of(writer: "StoryWriter") -> "Latent":
    """What makes a plan heard; a model without plans is refused."""
    if writer.latent is None:
        raise BadRequest(f"{writer.name}: a plain language model, which knows no plans; give a DiscoDVT")
    return writer.latent
