"""Prompts from the command line and from files, the ids of their stories, and plans that are given."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discodvt.errors import BadRequest
from discodvt.writing.prompts import read_plan, read_prompts, story_ids, typed_locks, typed_plan, typed_prompts
from discodvt.writing.story import Story

ROWS = [{"id": 7, "prompt": "A fox"}, {"id": 9, "prompt": "A crow's hat"}]


def file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def pairs(path: Path) -> list[tuple[str, str]]:
    return [(prompt.id, prompt.text) for prompt in read_prompts(path)]


def test_lines_are_numbered_and_blank_ones_passed_over(tmp_path):
    assert pairs(file(tmp_path / "p.txt", "\ufeffA fox\r\n\n  A crow's hat \n")) == [
        ("1", "A fox"),
        ("3", "A crow's hat"),
    ]
    assert [prompt.id for prompt in typed_prompts(["a", "b"])] == ["1", "2"]


def test_tables_give_the_same_prompts(tmp_path):
    lines = "".join(json.dumps(row | {"story": "x"}) + "\n" for row in ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "test.parquet")
    expected = [("7", "A fox"), ("9", "A crow's hat")]
    assert pairs(file(tmp_path / "p.jsonl", lines)) == expected
    assert pairs(file(tmp_path / "p.csv", "id,prompt\n7,A fox\n9,A crow's hat\n")) == expected
    assert pairs(tmp_path / "test.parquet") == expected
    assert pairs(file(tmp_path / "bare.jsonl", '{"prompt": "A fox"}\n')) == [("1", "A fox")]


def test_every_story_has_its_own_id():
    prompts = typed_prompts(["a", "b"])
    assert story_ids(prompts, 1) == ["1", "2"]
    assert story_ids(prompts, 2) == ["1#1", "1#2", "2#1", "2#2"]


def test_half_a_character_is_replaced():
    assert typed_prompts(["fox \udce9"])[0].text == "fox ?"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.txt", None, "no such file"),
        ("empty.txt", "", "the file is empty"),
        ("blank.txt", "\n \n", "no prompt in it"),
        ("corrupt.jsonl", '{"prompt": "a"}\n{"prompt": \n', r"corrupt.jsonl:2: not JSON"),
        ("other.jsonl", '{"title": "a"}\n', r"other.jsonl:1: no column `prompt`; it has title"),
        ("null.jsonl", '{"prompt": "a"}\n{"prompt": null}\n', r"null.jsonl:2: null"),
        ("blank.jsonl", '{"prompt": "a"}\n{"prompt": " "}\n', r"blank.jsonl:2: the prompt is empty"),
        ("twice.jsonl", '{"id": "x", "prompt": "a"}\n{"id": "x", "prompt": "b"}\n', r":2: id 'x' is that of .*:1 too"),
    ],
)
def test_files_that_are_wrong(tmp_path, name, text, message):
    path = tmp_path / name if text is None else file(tmp_path / name, text)
    with pytest.raises(BadRequest, match=message):
        read_prompts(path)


def test_a_table_without_rows_is_not_told_to_write_lines(tmp_path):
    pq.write_table(pa.table({"prompt": pa.array([], pa.string())}), tmp_path / "none.parquet")
    (tmp_path / "empty.parquet").touch()
    for name, message in (("none", "no prompt in it; give one with a row"), ("empty", "empty; give one with prompts")):
        with pytest.raises(BadRequest, match=message):
            read_prompts(tmp_path / f"{name}.parquet")


def test_a_corpus_directory_is_pointed_to_its_files(tmp_path):
    with pytest.raises(BadRequest, match=r"a directory; .*test\.parquet"):
        read_prompts(tmp_path)


def test_typed_plans():
    assert typed_plan(" 12 7,201 ") == (12, 7, 201)
    for wrong in ("12 x", "-3", "1.5", "٣", "9" * 5000):
        with pytest.raises(BadRequest, match="is no code") as refused:
            typed_plan(wrong)
        assert len(str(refused.value)) < 100
    for wrong in (f"{'9' * 5000}:3", f"3:{'9' * 5000}"):
        with pytest.raises(BadRequest, match="`lock`"):
            typed_locks([wrong])
    with pytest.raises(BadRequest, match="no codes"):
        typed_plan(" ")


class Posterior:
    """A writer that reads a plan off a text: the lengths of its words."""

    def plan_of(self, story: str) -> tuple[int, ...]:
        return tuple(len(word) for word in story.split())


def test_plans_of_texts_and_of_stories(tmp_path):
    writer = Posterior()
    assert read_plan(str(file(tmp_path / "story.txt", "\ufeffThe fox slept.\n")), writer) == (3, 3, 6)
    records = [Story(id, "p", "s", plan, 0, "nano", "end") for id, plan in (("a#1", (5, 6)), ("b", ()))]
    stories = str(file(tmp_path / "stories.jsonl", "".join(record.as_line() for record in records)))
    assert read_plan(f"{stories}#a#1", writer) == (5, 6)
    assert read_plan(str(file(tmp_path / "one.jsonl", records[0].as_line())), writer) == (5, 6)
    for source, message in (
        (stories, r"2 stories in it; name one, such as .*stories\.jsonl#a#1"),
        (f"{stories}#c", "no story 'c'; it has a#1, b"),
        (f"{stories}#b", "without a plan"),
        (str(tmp_path / "none.txt"), "No such file"),
        (str(tmp_path / "none.jsonl") + "#a", "no such file"),
        (str(file(tmp_path / "empty.txt", " ")), "empty"),
    ):
        with pytest.raises(BadRequest, match=message):
            read_plan(source, writer)
