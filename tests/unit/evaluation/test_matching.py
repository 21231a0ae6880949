"""Stories and references from files, matched by id or by prompt."""

import json
from pathlib import Path

import pytest

from discodvt.errors import BadRequest
from discodvt.evaluation.matching import match, prompts_of, read_story_lines


def write(path: Path, *records: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def record(id: str, prompt: str = "p", story: str | None = None) -> dict[str, object]:
    return {"id": id, "prompt": prompt, "story": story or f"story {id}"}


def test_ids_match_in_the_order_of_the_stories(tmp_path):
    stories = read_story_lines(write(tmp_path / "s.jsonl", record("b"), record("a")))
    references = read_story_lines(write(tmp_path / "r.jsonl", record("a"), record("b", story="reference b")))
    pairs = match([stories], references)
    assert [told.story for told in pairs.references] == ["reference b", "story a"]


def test_prompts_go_round_their_references(tmp_path):
    stories = read_story_lines(write(tmp_path / "s.jsonl", *(record(str(n), "pq"[n % 4 == 3]) for n in range(4))))
    references = read_story_lines(write(tmp_path / "r.jsonl", record("x"), record("y"), record("z", "q")))
    assert [told.id for told in match([stories], references, by="prompt").references] == ["x", "y", "x", "z"]


def test_another_system_is_put_in_the_order_of_the_first(tmp_path):
    a = read_story_lines(write(tmp_path / "a.jsonl", record("1"), record("2")))
    b = read_story_lines(write(tmp_path / "b.jsonl", record("2", story="b2"), record("1", story="b1")))
    assert [told.story for told in match([a, b], a).systems[1]] == ["b1", "b2"]
    with pytest.raises(BadRequest, match=r"a\.jsonl:2: its id is not among the other system's"):
        match([a, b[1:]], a)


def test_what_does_not_match_is_refused_or_left_out(tmp_path):
    stories = read_story_lines(write(tmp_path / "s.jsonl", record("a"), record("b"), record("c")))
    with pytest.raises(BadRequest, match=r"s\.jsonl:2: no reference with this id, nor for 1 more of 3 stories"):
        match([stories], stories[:1])
    with pytest.raises(BadRequest, match=r"s\.jsonl:3: no story with this id of 3 references; .*`drop_unmatched`"):
        match([stories[:2]], stories)
    fewer, more = (match([stories[:n]], stories[1:], drop_unmatched=True) for n in (2, 3))
    assert [told.id for told in fewer.references] == ["b"]
    assert (fewer.dropped, fewer.unused, more.dropped, more.unused) == (1, 1, 1, 0)
    with pytest.raises(BadRequest, match="no reference"):
        match([stories[:1]], stories[1:], drop_unmatched=True)


def test_a_prompt_with_fewer_stories_than_references_is_matched(tmp_path):
    stories = read_story_lines(write(tmp_path / "s.jsonl", record("1"), record("2", "q")))
    references = read_story_lines(write(tmp_path / "r.jsonl", record("x"), record("y"), record("z", "q")))
    assert match([stories], references, by="prompt").unused == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "b", "story": ', r"s.jsonl:2: not JSON \(Expecting value, column 22\)"),
        ("[1]", "s.jsonl:2: a JSON list"),
        ('{"id": "b"}', "s.jsonl:2: the story is missing"),
        ('{"id": "b", "story": " "}', "s.jsonl:2: the story is empty"),
        ('{"id": 3, "story": "x"}', "s.jsonl:2: id is not a string"),
        ('{"id": ' + "9" * 5000 + ', "story": "x"}', "s.jsonl:2: a number of thousands of digits"),
        ('{"id": "b", "story": "x", "plan": [2147483648]}', "s.jsonl:2: plan is not a list of codes"),
        ('{"id": "b", "story": "x", "plan": NaN}', "s.jsonl:2: plan is not a list of codes"),
    ],
)
def test_a_corrupt_line_is_named(tmp_path, line, message):
    path = write(tmp_path / "s.jsonl", record("a"))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadRequest, match=message):
        read_story_lines(path)


def test_half_a_character_is_replaced_for_no_file_can_hold_it(tmp_path):
    """JSON escapes bring them in; `pairs.jsonl`, a study's items and the folds of prompts are UTF-8."""
    path = write(tmp_path / "s.jsonl", record("a", "p\ud83d", "He \ud83d ran. \U0001f600"))
    (story,) = read_story_lines(path)
    assert (story.prompt, story.story) == ("p\ufffd", "He \ufffd ran. \U0001f600")


def test_an_id_twice_or_none_is_refused(tmp_path):
    twice = read_story_lines(write(tmp_path / "s.jsonl", record("a"), record("a")))
    with pytest.raises(BadRequest, match=r"s\.jsonl:2: id 'a' is there twice"):
        match([twice], twice)
    nameless = read_story_lines(write(tmp_path / "n.jsonl", {"story": "x", "prompt": "p"}))
    with pytest.raises(BadRequest, match="`by` prompt"):
        match([nameless], twice[:1])


def test_stories_with_blank_prompts_share_none(tmp_path):
    given = [record("a", ""), record("b", " "), record("c", "p"), record("d", "p")]
    prompts = prompts_of(read_story_lines(write(tmp_path / "s.jsonl", *given)))
    assert len(set(prompts)) == 3
    assert prompts[2:] == ["p", "p"]
