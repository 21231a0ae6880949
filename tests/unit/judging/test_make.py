"""Making a study: balanced, opaque, fixed; wrong requests are one line and leave nothing behind."""

import json
from collections import Counter
from pathlib import Path

import pytest
from unit.judging.toy_study import OURS, RIVAL, THIRD, toy_study, write_stories, write_study

from discodvt.corpus.sentences import split_sentences
from discodvt.errors import BadRequest
from discodvt.judging.make_stage import make_study, open_study, shown


def test_ours_comes_first_in_half_of_each_rivals_items(tmp_path: Path) -> None:
    study = toy_study(tmp_path, systems=3)
    places = Counter((study.key[item].rival, study.key[item].ours) for item in study.pairs)
    assert places == {(rival, place): 6 for rival in (RIVAL, THIRD) for place in ("first", "second")}
    prompts = Counter(study.items[item].prompt for item in study.pairs)
    assert set(prompts.values()) == {2}  # every prompt against every rival


def test_texts_are_where_the_key_says(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    told = {name: _stories(tmp_path / f"{name}.jsonl") for name in (OURS, RIVAL)}
    for id in study.pairs:
        item, key = study.items[id], study.key[id]
        ours, theirs = (item.first, item.second) if key.ours == "first" else (item.second, item.first)
        assert (ours, theirs) == (told[OURS][item.prompt], told[RIVAL][item.prompt])


def test_checks_look_like_items_and_have_a_right_answer(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    people = set(_stories(tmp_path / "people.jsonl").values())
    kinds = Counter(study.key[id].kind for id in study.checks)
    assert kinds == {"shuffled": 2, "same": 2}
    for id in study.checks:
        item, key = study.items[id], study.key[id]
        if key.kind == "same":
            assert item.first == item.second in people
            assert key.expected == "tie"
        else:
            right, wrong = (item.first, item.second) if key.expected == "first" else (item.second, item.first)
            assert right in people
            assert wrong != right
            assert sorted(_sentences(wrong)) == sorted(_sentences(right))


def test_a_prompt_with_a_line_separator_is_one_item(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    for name in (OURS, RIVAL):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(path.read_text().replace("A prompt", "A\u2028prompt\x85"), encoding="utf-8")
    make_study(file, tmp_path / "out")
    study = open_study(tmp_path / "out")
    assert len(study.pairs) == 12
    assert all("\u2028" in study.items[item].prompt for item in study.pairs)


def test_a_story_of_one_sentence_again_and_again_is_no_check_of_order(tmp_path: Path) -> None:
    file = write_study(tmp_path)
    line = json.dumps({"id": "s0", "prompt": "p", "story": "Go! Go! Go! Go! Go!"}) + "\n"
    (tmp_path / "people.jsonl").write_text(line)
    make_study(file, tmp_path / "out")
    study = open_study(tmp_path / "out")
    assert {study.key[id].kind for id in study.checks} == {"same"}


def test_items_say_nothing_of_systems_and_their_order_nothing_either(tmp_path: Path) -> None:
    study = toy_study(tmp_path, systems=3)
    text = (study.path / "items.jsonl").read_text()
    assert not any(name in text for name in (OURS, RIVAL, THIRD, "people", "shuffled", "same"))
    rivals = [study.key[json.loads(line)["id"]].rival for line in text.splitlines()]
    assert rivals != sorted(rivals)
    assert (study.path / "key.json").stat().st_mode & 0o077 == 0


def test_the_same_study_is_the_same_bytes_and_another_seed_another(tmp_path: Path) -> None:
    first, again = (toy_study(tmp_path / name) for name in ("a", "b"))
    other = toy_study(tmp_path / "c", extra="seed = 1")
    assert first.hash == again.hash != other.hash
    assert make_study(tmp_path / "a" / "study.toml", tmp_path / "a" / "out").already_complete


def test_a_made_study_is_neither_changed_nor_replaced(tmp_path: Path) -> None:
    study = toy_study(tmp_path)
    with pytest.raises(BadRequest, match="holds a finished `judge make`"):
        make_study(write_study(tmp_path, extra="seed = 5"), study.path)
    key = study.path / "key.json"
    key.write_text(key.read_text().replace('"first"', '"second"', 1))
    with pytest.raises(BadRequest, match="changed after"):
        open_study(study.path)


def test_one_rule_for_white_space_and_length() -> None:
    assert shown("  One  two.\r\n\n\n Three\tfour. \n", 0) == "One two.\nThree four."
    assert shown("One two three. Four five six. Seven.", 5) == "One two three."
    assert shown("One two three four five six", 3) == "One two three"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('title = ""', "title: String should have at least 1"),
        ("items = 99", "items = 99, but the systems share 12 prompts; ask for fewer"),
        ("items = 0", "items: Input should be greater than or equal to 1"),
        ("itmes = 3", "itmes: Extra inputs are not permitted; known keys: title, consent"),
        ("items = 'x'", "items: Input should be a valid integer"),
        ("seed = [", "not a TOML file"),
        ("checks = {every = 1}", "checks.every = 1"),
        ("completion = {url = 'javascript:alert(1)'}", "completion.url: String should match"),
        ("questions = [{id = 'a', text = 'A?'}, {id = 'a', text = 'B?'}]", "two questions have one id"),
        ("questions = [{id = 'No Spaces', text = 'A?'}]", "questions.0.id: String should match"),
        ("questions = []", "questions: Tuple should have at least 1"),
        ("systems = {a = 'a.jsonl'}", "systems: give two systems"),
        ("systems = {a = 'a.jsonl', b = 'missing.jsonl'}", "missing.jsonl: no such file"),
        ("systems = {a = 'a.jsonl', b = 'other.jsonl'}", "the systems share no prompt"),
        ("systems = {a = 'a.jsonl', b = 'broken.jsonl'}", "broken.jsonl:1"),
        ("questions = [{id = 'a', text = 'A?', tie = false}]", "the first question needs tie = true"),
    ],
)
def test_a_wrong_study_file_is_one_line_and_leaves_nothing(tmp_path: Path, change: str, message: str) -> None:
    for name in ("a", "b"):
        write_stories(tmp_path / f"{name}.jsonl", 1)
    other = (tmp_path / "a.jsonl").read_text().replace("A prompt", "Another")
    (tmp_path / "other.jsonl").write_text(other)
    (tmp_path / "broken.jsonl").write_text("{\n")
    lines = {"systems": "systems = {a = 'a.jsonl', b = 'b.jsonl'}", "items": "items = 12"}
    lines[change.split()[0]] = change
    file = tmp_path / "study.toml"
    file.write_text("\n".join(lines.values()))
    with pytest.raises(BadRequest) as error:
        make_study(file, tmp_path / "out")
    assert message in str(error.value)
    assert "\n" not in str(error.value).strip() or "TOML" in message
    assert not (tmp_path / "out").exists()


def test_a_missing_study_file_or_directory_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="No such file"):
        make_study(tmp_path / "none.toml", tmp_path / "out")
    with pytest.raises(BadRequest, match="no such directory"):
        open_study(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadRequest, match="not made by discodvt"):
        open_study(tmp_path / "empty")


def _stories(path: Path) -> dict[str, str]:
    return {line["prompt"]: line["story"] for line in map(json.loads, path.read_text().splitlines())}


def _sentences(text: str) -> list[str]:
    return [text[start:end].strip() for start, end in split_sentences(text)]
