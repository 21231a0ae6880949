"""Control: kept beginnings, rewrites, locks, alternatives, counterfactuals, candidates, wishes; and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner
from unit.writing.toy_writer import CODES, TOKENS_PER_CODE, open_writer, save_writer

from discodvt.cli import app
from discodvt.discourse import Annotator
from discodvt.errors import BadRequest
from discodvt.writing import Request, SamplingParams, Segment, Story, StoryWriter
from discodvt.writing.candidates import Wish, choose, scores_of, where_found, wished_codes, write_best
from discodvt.writing.control import alternatives, counterfactual, heard, kept_text, reach, redraw, rewrite, spans
from discodvt.writing.decoding import Favour
from discodvt.writing.dictionary import CodeDictionary

PROMPT = "The fox who lost his hat"
SETTINGS = SamplingParams(min_tokens=30, max_tokens=36, min_codes=8)


@pytest.fixture(scope="module", params=["bart", "llama"])
def writer(request, tmp_path_factory) -> StoryWriter:
    return open_writer(tmp_path_factory.mktemp("writer"), request.param)


@pytest.fixture(scope="module")
def story(writer) -> Story:
    return written(writer, Request(PROMPT, seed=3))


def written(writer: StoryWriter, request: Request) -> Story:
    (found,) = writer.write_many([request], SETTINGS)
    return found


def test_a_rewrite_keeps_what_stands_before_and_is_the_plan_with_a_forced_beginning(writer, story):
    place = 4
    code = (story.plan[place] + 1) % CODES
    kept = kept_text(story, place)
    assert len(kept) > 5
    assert story.text.startswith(kept)
    changed = written(writer, rewrite(story, place, code=code))
    assert changed.plan == (*story.plan[:place], code, *story.plan[place + 1 :])
    assert changed.text.startswith(kept)
    assert changed.text != story.text
    assert changed == written(writer, Request(PROMPT, seed=3, id=story.id, plan=changed.plan, begin_with=kept))


def test_a_kept_beginning_ends_with_a_whole_word():
    told = Story("1", "p", "one two three", (1, 2), 0, "m", "end", (Segment(1, 0, 6), Segment(2, 6, 13)))
    assert kept_text(told, 1) == "one"
    assert kept_text(replace(told, segments=(Segment(1, 0, 7), Segment(2, 7, 13))), 1) == "one two"
    assert kept_text(told, 0) == ""


def test_a_redraw_keeps_plan_and_text_before_and_locked_codes_after(writer, story):
    again = written(writer, redraw(story, 3, locks=[(5, 7)], seed=11))
    assert again.plan[:3] == story.plan[:3]
    assert again.plan[5] == 7
    assert again.plan[3:] != story.plan[3:]
    assert again.text.startswith(kept_text(story, 3))


def test_a_code_reaches_before_its_segment_and_no_further(writer, story):
    """Two transposed convolutions of width 4 and stride 2: from 3 subwords before to 6 behind its first."""
    assert reach(writer) == range(-3, 7)
    place = 4
    pair = counterfactual(writer, Request(PROMPT, seed=3), place, (story.plan[place] + 1) % CODES, SETTINGS)
    assert pair.stories[0] == story
    first = place * TOKENS_PER_CODE + reach(writer).start
    assert all(each.same for each in pair.places[: first // TOKENS_PER_CODE])
    assert not all(each.same for each in pair.places)
    assert [each.place for each in pair.places if each.codes[0] != each.codes[1]] == [place]
    assert "".join(each.texts[0] for each in pair.places) == story.text


def test_alternatives_are_the_distribution_the_prior_draws_from(writer, story):
    found = alternatives(writer, PROMPT, story.plan, 2)
    assert sorted(each.code for each in found) == list(range(CODES))
    assert sum(each.probability for each in found) == pytest.approx(1)
    assert found == sorted(found, key=lambda each: -each.probability)
    greedy = SamplingParams(min_tokens=2, max_tokens=4, min_codes=8, plan_temperature=0)
    (likeliest,) = writer.write_many([Request(PROMPT, locks=tuple(enumerate(story.plan[:2])))], greedy)
    assert likeliest.plan[2] == found[0].code


@pytest.mark.filterwarnings("ignore:a story of")  # a random model's characters are read as more subwords
def test_a_story_is_heard_place_by_place(writer, story):
    marks = heard(writer, story)
    assert [(each.place, each.code) for each in marks] == list(enumerate(story.plan))
    read = writer.plan_of(story.text)
    reached = [span is not None for span in spans(story.plan, story.segments)]
    assert [each.heard for each in marks if reached[each.place]] == list(read[: sum(reached)])
    assert all(each.heard == -1 for each in marks if not reached[each.place])


def test_the_best_of_k_is_the_best_of_the_stories_of_k_indices(writer):
    (best,) = write_best(writer, [Request(PROMPT, index=0, seed=2)], SETTINGS, candidates=5, batch_size=4)
    same = sorted(
        writer.write_many([Request(PROMPT, index=n, seed=2) for n in range(5)], SETTINGS), key=lambda each: each.index
    )
    held = best.notes["candidates"]
    assert [each["story"] for each in held] == [each.text for each in same]
    totals = [each["scores"]["total"] for each in held]
    assert best.notes["chosen"] == totals.index(max(totals))
    assert best.text == same[best.notes["chosen"]].text
    assert Story.from_line(best.as_line(), "here").notes["scores"] == best.notes["scores"]


def test_scores_are_log_probabilities_of_plan_and_text_and_words_of_the_prompt(writer):
    (first,) = writer.write_many([Request(PROMPT, scored=True)], SETTINGS)
    assert set(first.notes["log_probs"]) == {"plan", "text"}
    assert all(-20 < value < 0 for value in first.notes["log_probs"].values())
    assert written(writer, Request(PROMPT)) == first
    told = replace(first, text="A hat! The fox", notes={"log_probs": {"text": -1.0}})
    assert scores_of(told) == {"text": -1.0, "words": pytest.approx(2 / 3), "total": pytest.approx(-1 / 3)}
    assert scores_of(replace(told, prompt="the"))["total"] == -1.0


def test_the_probability_of_a_forced_code_counts(writer, story):
    """What makes plans with a lock comparable: how likely the lock is after what was drawn before it."""
    (locked,) = writer.write_many([Request(PROMPT, locks=((0, 1), (2, 5)), scored=True)], SETTINGS)
    expected = alternatives(writer, PROMPT, locked.plan, 0)
    assert {each.code for each in expected} == set(range(CODES))
    assert locked.plan[0] == 1
    assert locked.plan[2] == 5


def test_a_wish_is_found_by_the_annotator_there_or_beside(annotator: Annotator):
    text = "He was sad because he lost his hat. He cried. He went home."
    cut = text.index("because")
    segments = (Segment(3, 0, cut), Segment(4, cut, cut + 12), Segment(5, cut + 12, len(text)))
    told = Story("1", "p", text, (3, 4, 5, 6), 0, "m", "end", segments)
    places = [where_found(annotator, [told], Wish(place, "because"))[0] for place in range(4)]
    assert places == ["beside", "here", "beside", "nowhere"]
    assert where_found(annotator, [told], Wish(1, "although")) == ["nowhere"]
    best = choose([replace(told, text="no"), told], ["nowhere", "here"])
    assert (best.text, best.notes["chosen"]) == (text, 1)


def test_a_wish_keeps_the_beginning_and_tries_codes_of_the_dictionary(writer, story):
    book = CodeDictionary(
        {7: {"grams": [], "markers": [{"marker": "because", "count": 3, "share": 1.0}], "share": 0.1}}
    )
    assert wished_codes(writer, story, Wish(3, "because"), book)[0] == 7
    (best,) = write_best(writer, [Request(PROMPT, seed=3)], SETTINGS, candidates=4, wish=Wish(3, "because"))
    held = best.notes["candidates"]
    assert held[0]["story"] == story.text
    assert all(each["story"].startswith(kept_text(story, 3)) for each in held)
    assert all(tuple(each["plan"][:3]) == story.plan[:3] for each in held)
    assert best.notes["wish"]["found"] == max((each["found"] for each in held), key="nowhere beside here".split().index)


def test_candidates_of_a_wish_keep_what_was_asked_for(writer):
    """Locks (also at the place), a beginning that reaches further than the place, a given plan but for its code."""
    wish, begin_with, plan = Wish(1, "because"), "Once there was a fox. He", (1, 2, 3, 4, 5, 6, 7, 8)
    requests = [Request(PROMPT, locks=((1, 2), (6, 7))), Request(PROMPT, begin_with=begin_with, plan=plan)]
    locked, planned = (
        next(write_best(writer, [request], SETTINGS, candidates=4, wish=wish)).notes["candidates"]
        for request in requests
    )
    assert [(each["plan"][1], each["plan"][6]) for each in locked] == [(2, 7)] * 4
    assert all(each["story"].startswith(begin_with) for each in planned)
    assert {(*each["plan"][:1], *each["plan"][2:]) for each in planned} == {(1, 3, 4, 5, 6, 7, 8)}
    assert len({each["plan"][1] for each in planned}) > 1


def test_a_wish_behind_what_the_limit_left_of_a_story_is_told(writer):
    settings = SamplingParams(min_tokens=8, max_tokens=8, min_codes=8)
    with pytest.warns(UserWarning, match="`wish`: place 5 lies behind the story, which has 2 codes"):
        (story,) = write_best(writer, [Request(PROMPT)], settings, candidates=2, wish=Wish(5, "because"))
    assert (len(story.notes["candidates"]), story.notes["wish"]["found"]) == (1, "nowhere")


def test_a_wish_behind_the_plan_of_one_story_leaves_the_others_theirs(writer):
    """Plans are drawn and of different lengths: one too short for the wish must not end a run of many stories."""
    settings = SamplingParams(min_tokens=2, max_tokens=78, plan_temperature=50)  # so that plans end
    requests = [Request(PROMPT, index=index) for index in range(8)]
    bases = writer.write_many([Request(PROMPT, index=2 * index) for index in range(8)], settings)
    lengths = {base.index // 2: len(base.plan) for base in bases}
    place = min(lengths.values())
    told = f"`wish`: place {place} lies behind the story, which has {place} codes"
    with pytest.warns(UserWarning, match=told):
        stories = list(write_best(writer, requests, settings, candidates=2, wish=Wish(place, "because")))
    counts = [len(story.notes["candidates"]) for story in stories]
    assert counts == [1 + (lengths[index] > place) for index in range(8)]
    assert set(counts) == {1, 2}
    with pytest.raises(BadRequest, match="`wish`: place 8; the plan has places 0 to 1"):
        list(write_best(writer, [Request(PROMPT, plan=(1, 2))], settings, candidates=2, wish=Wish(8, "because")))


@pytest.mark.parametrize(
    "wrong", [{"share": "x"}, {"markers": [{"marker": "so", "count": "x", "share": 1}]}, {"grams": 1}]
)
def test_a_damaged_dictionary_is_one_line(tmp_path, wrong):
    whole = {"code": 1, "share": 0.1, "grams": [], "markers": [{"marker": "so", "count": 3, "share": 1.0}]}
    (tmp_path / "codes.json").write_text(json.dumps({"codes": [whole]}))
    assert CodeDictionary.of(tmp_path).frequency(1, "so") == 30
    (tmp_path / "codes.json").write_text(json.dumps({"codes": [whole | wrong]}))
    with pytest.raises(BadRequest, match="no code dictionary"):
        CodeDictionary.of(tmp_path)


def test_wrong_wishes_and_places_are_one_line(writer, story):
    for request, reason in (
        (lambda: Wish(2, "whereas").checked(), "'whereas' is no marker; give one of although"),
        (lambda: list(write_best(writer, [Request(PROMPT)], SETTINGS, candidates=2, wish=Wish(99, "so"))), "place 99"),
        (lambda: rewrite(story, 99), "place 99; the plan has places 0 to"),
        (lambda: written(writer, Request(PROMPT, locks=((99, 1),))), "place 99"),
        (lambda: written(writer, Request(PROMPT, locks=((0, CODES),))), "none of the model's"),
        (lambda: list(write_best(writer, [Request(PROMPT)], SETTINGS, candidates=0)), "expected 1 or more"),
    ):
        with pytest.raises(BadRequest, match=reason):
            request()


def test_the_command_takes_locks_beginnings_and_candidates(tmp_path: Path):
    folder, run = save_writer(tmp_path / "writer"), CliRunner()
    options = ["generate", PROMPT, "--model", str(folder), "--json", "--min-codes", "6", "--max-tokens", "20"]
    (tmp_path / "begin.txt").write_text("Once there was\n")
    told = run.invoke(app, [*options, "--lock", "1:4", "--begin-with", f"@{tmp_path / 'begin.txt'}", "--best-of", "3"])
    record = json.loads(told.stdout)
    assert record["plan"][1] == 4
    assert record["story"].startswith("Once there was")
    assert len(record["candidates"]) == 3
    for wrong, reason in (
        (["--lock", "x:4"], "x:4"), (["--lock", "1:x"], "no code"), (["--lock", "1:2", "--lock", "1:3"], "one place"),
        (["--wish", "2"], "as 5:because"), (["--wish", "2:maybe"], "no marker"), (["--begin-with", " "], "no text"),
        (["--lock", "1:2", "--plan", "1 2"], "--lock"), (["--lock", "77:2"], "place 77"),
        (["--wish", "77:so"], "place 77"),
    ):  # fmt: skip
        found = run.invoke(app, [*options, *wrong])
        assert found.exit_code != 0, wrong
        assert isinstance(found.exception, BadRequest), wrong
        assert reason in str(found.exception)


def test_a_favoured_symbol_is_wanted_ever_more_until_it_has_come():
    favour = Favour((7, 9), first=4, last=8, bias=5.0)
    drawn = [1, 7, 2, 3]  # one before the place does not count
    assert [favour.bias_after([1] * at) for at in (3, 4, 6, 8)] == [0.0, 5.0, 7.5, 0.0]
    assert favour.bias_after(drawn) == 5.0
    assert favour.bias_after([*drawn, 9]) == 0.0
