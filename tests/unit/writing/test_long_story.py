"""Stories longer than the positions: the same whatever is written beside them, plan and segments as of every story."""

from dataclasses import replace
from typing import Any

import pytest
from unit.writing.toy_writer import (
    CODES,
    TOKENS_PER_CODE,
    open_writer,
    save_bart,
    save_writer,
    written,
)

from discodvt.errors import BadRequest
from discodvt.writing import Request, SamplingParams, Story, StoryStream, StoryWriter
from discodvt.writing.decoding import looping
from discodvt.writing.long_story import STRENGTH

LONG, SHORT = SamplingParams(words=24), SamplingParams(min_tokens=3, max_tokens=30)
REQUESTS = [Request(("The fox who lost his hat", "Ann")[index % 2], index=index, seed=3) for index in range(3)]


@pytest.fixture(scope="module", params=["bart", "llama"])
def writer(request, tmp_path_factory) -> StoryWriter:
    return open_writer(tmp_path_factory.mktemp("writer"), request.param)


@pytest.fixture(scope="module")
def drafts(writer) -> list[Any]:
    return [draft for each in REQUESTS for draft in written(writer, [each], LONG)]


@pytest.fixture(scope="module")
def alone(writer, drafts) -> list[Story]:
    return [writer.story(draft) for draft in drafts]


def test_it_is_longer_than_the_positions_and_about_as_long_as_asked(writer, alone, drafts):
    for draft, story in zip(drafts, alone, strict=True):
        assert 24 * 0.8 <= len(story.text.split()) <= 24 * 1.8
        assert len(draft.symbols) > writer.lengths.positions
    assert len({story.text for story in alone}) == len(alone)
    longer = writer.write("Ann", seed=3, index=1, words=48)
    assert longer.text[:80] == alone[1].text[:80]  # the same windows, until the shorter one comes to its end
    assert len(longer.text.split()) > 42


def test_it_is_the_same_in_any_batch_beside_others_and_streamed(writer, alone):
    assert sorted(writer.write_many(REQUESTS, LONG, batch_size=3), key=lambda story: story.index) == alone
    batch, streams = writer.batch(3), []
    for request in REQUESTS:
        streams.append(StoryStream(writer, batch.add(request, LONG), batch))
        batch.add(replace(request, index=request.index + 50), SHORT)  # those come and go beside it
    pieces: dict[int, str] = {}
    while batch:
        batch.step()
        for number, stream in enumerate(streams):
            pieces[number] = pieces.get(number, "") + stream.grow()
    assert [stream.story for stream in streams] == alone
    assert list(pieces.values()) == [story.text for story in alone]


def test_nothing_stands_three_times_in_a_row(writer):
    """A greedy random model does nothing but loop; spared words of the prompt are met by no penalty."""
    for prompt in ("The fox who lost his hat", "Ann"):
        symbols = written(writer, [Request(prompt)], SamplingParams(words=24, greedy=True))[0].symbols
        for size in range(1, 9):
            runs = [a == b for a, b in zip(symbols, symbols[size:], strict=False)]
            longest = max(len(run) for run in "".join("x" if same else " " for same in runs).split(" "))
            assert longest < 2 * size, (prompt, size)


def test_symbols_that_would_make_a_loop():
    assert list(looping([5, 7, 7], 2)) == [7]
    assert list(looping([5, 7, 7], 3)) == []
    assert list(looping([1, 2, 1, 2, 1], 2)) == [2]
    assert list(looping([1, 2, 1, 2], 2)) == []  # a third 1 is no block yet
    assert list(looping([], 2)) == []


def test_segments_tile_the_text_code_by_code(writer, alone, drafts):
    for draft, story in zip(drafts, alone, strict=True):
        assert [segment.start for segment in story.segments[1:]] == [segment.end for segment in story.segments[:-1]]
        assert (story.segments[0].start, story.segments[-1].end) == (0, len(story.text))
        assert len(story.plan) > writer.lengths.max_codes
        grown = writer.growing_text()
        for symbol in draft.symbols:
            grown.add(symbol)
        _, starts = grown.stripped()
        edges = [max(0, start) for start in starts[::TOKENS_PER_CODE]]
        for place in range(1, min(len(story.plan), len(edges)) - 1):
            if edges[place] < edges[place + 1] <= len(story.text):
                assert (story.plan[place], edges[place], edges[place + 1]) in story.segments


def test_its_beginning_is_what_its_plan_gives(writer, drafts):
    """A window is written under the latent of the whole plan, though the codes after it are not drawn yet."""
    for draft in drafts:
        first = draft.codes * TOKENS_PER_CODE
        held = writer.lengths.positions // TOKENS_PER_CODE
        planned = replace(draft.request, plan=draft.plan[:held])
        (given,) = written(writer, [planned], replace(SHORT, min_tokens=first, plan_strength=STRENGTH))
        assert draft.symbols[:first] == given.symbols[:first]


def test_locks_hold_and_a_beginning_stays(writer, alone):
    place = 15
    code = (alone[0].plan[place] + 1) % CODES
    (locked,) = writer.write_many([replace(REQUESTS[0], locks=((place, code),))], LONG)
    assert locked.plan[:place] == alone[0].plan[:place]
    assert locked.plan[place] == code
    begun = writer.stream(replace(REQUESTS[0], begin_with="Once there was a fox."), LONG)
    assert "".join(begun) == begun.story.text
    assert begun.story.text.startswith("Once there was a fox.")
    assert len(begun.story.text.split()) > 19


def test_every_lock_within_the_plan_holds(writer, alone):
    """Also in the last window, whose plan ends where it will."""
    plan = alone[0].plan
    locks = [(place, (plan[place] + 1) % CODES) for place in range(len(plan) - 6, len(plan))]
    for lock, draft in zip(
        locks, written(writer, [replace(REQUESTS[0], locks=(lock,)) for lock in locks], LONG, 6), strict=True
    ):
        assert draft.plan[: lock[0] + 1] == (*plan[: lock[0]], lock[1])


def test_a_lock_behind_the_plan_is_told(writer):
    with pytest.warns(UserWarning, match="`locks`: place 150 lies behind the plan that was drawn, of [0-9]+ codes"):
        list(writer.write_many([Request("Ann", locks=((150, 1),))], replace(LONG, words=24)))


def test_a_cancelled_one_leaves_the_batch_at_once(writer):
    batch = writer.batch(2)
    draft = batch.add(REQUESTS[0], LONG)
    for _ in range(40):
        batch.step()
    assert len(draft.symbols) > 20
    assert len(batch) == 1
    batch.cancel(draft)
    assert len(batch) == 0
    assert not draft.done
    assert batch.step() == []


def test_scores_count_every_symbol_once(writer):
    (draft,) = written(writer, [replace(REQUESTS[0], scored=True)], LONG)
    assert set(writer.story(draft).notes["log_probs"]) == {"plan", "text"}
    assert len(draft.log_probs) == len(draft.symbols) + draft.ended


@pytest.mark.parametrize(
    ("request_", "params", "message"),
    [
        (Request("Ann"), {"words": 0}, "`words` 0: expected a whole number, 1 to 100,000"),
        (Request("Ann"), {"words": 9.5}, "`words` 9.5: expected a whole number, 1 to 100,000"),
        (Request("Ann"), {"words": 10**9}, "`words` 1000000000: expected a whole number, 1 to 100,000"),
        (Request("Ann"), {"words": 90, "max_tokens": 20}, "`words` and `max_tokens`: both say how long"),
        (Request("Ann", plan=(1, 2)), {"words": 90}, "`words` and `plan`: a long story draws its own plan"),
        (Request("Ann", begin_with="a fox. " * 60), {"words": 90}, "`begin_with`: "),
        (Request("Ann", locks=((2, 999),)), {"words": 90}, "`locks`: code 999 is none of the model's"),
        (Request("Ann", locks=((-1, 2),)), {"words": 90}, "`locks`: place -1; "),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(writer, request_, params, message):
    with pytest.raises(BadRequest) as refused:
        list(writer.write_many([request_], SamplingParams(**params)))
    assert str(refused.value).startswith(message)


def test_a_model_too_short_or_without_plans_is_refused(tmp_path, writer):
    plain = StoryWriter.from_pretrained(save_bart(tmp_path / "plain"))
    with pytest.raises(BadRequest, match="`words`: plain draws no plan"):
        plain.write("Ann", words=60)
    short = StoryWriter.from_pretrained(save_writer(tmp_path / "short"))
    short.lengths = replace(short.lengths, max_codes=3)
    with pytest.raises(BadRequest, match="`words`: a window has 4 codes, plans and positions of short hold 3"):
        short.write("Ann", words=60)
