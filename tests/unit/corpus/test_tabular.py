"""JSONL, CSV, Parquet and Hub datasets: the same rows from each, given splits, and every way a table can be wrong."""

import csv
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discodvt.corpus import Columns, HubDataset, Source, SourceRow, TabularFiles
from discodvt.corpus.formats import MAX_STORY_MB, Record
from discodvt.corpus.tabular import parse_split_map
from discodvt.errors import BadRequest

ROWS = [
    {"prompt": "A fox", "story": "It ran.\r\nIt slept.", "title": "Fox", "id": "7"},
    {"prompt": 'A "crow", black', "story": "It sang.\nIt fell. 😀", "title": "Crow", "id": "8"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def rows(source: Source) -> list[SourceRow]:
    return [row for part in source.parts() for row in part.read(MAX_STORY_MB)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path: Path, kind: str) -> None:
    found = rows(TabularFiles(kind, [write(tmp_path / f"a.{kind}", ROWS)]))
    assert [(row.prompt, row.story, row.id) for row in found] == [
        (row["prompt"], row["story"], row["id"]) for row in ROWS
    ]
    assert found[-1].position == (tmp_path / f"a.{kind}").stat().st_size


def test_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfprompt,story\r\nA fox,It ran.\r\n")
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"prompt": "A fox", "story": "It ran."}\r\n\r\n')
    for kind in ("csv", "jsonl"):
        assert [(r.prompt, r.story) for r in rows(TabularFiles(kind, [tmp_path / f"a.{kind}"]))] == [
            ("A fox", "It ran.")
        ]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_story_of_five_megabytes(tmp_path: Path, kind: str) -> None:
    story = "word, " * 900_000
    (row,) = rows(TabularFiles(kind, [write(tmp_path / f"a.{kind}", [{"prompt": "p", "story": story}])]))
    assert row.story == story


@pytest.mark.parametrize(
    ("columns", "prompt", "story"),
    [
        (Columns(), "A fox", "It ran.\r\nIt slept."),
        (Columns(prompt_from="title"), "Fox", "It ran.\r\nIt slept."),
        (Columns(prompt_column="story", story_column="prompt"), "It ran.\r\nIt slept.", "A fox"),
        (Columns(prompt_from="first-sentence"), "It ran.", "It slept."),
        (Columns(prompt_from="first-sentence", keep_first_sentence=True), "It ran.", "It ran.\r\nIt slept."),
    ],
)
def test_where_the_prompt_comes_from(tmp_path: Path, columns: Columns, prompt: str, story: str) -> None:
    row = rows(TabularFiles("jsonl", [write(tmp_path / "a.jsonl", ROWS)], columns=columns))[0]
    assert (row.prompt, row.story) == (prompt, story)


@pytest.mark.parametrize(("column", "ids"), [(None, ["7", "8"]), ("", [None, None]), ("title", ["Fox", "Crow"])])
def test_ids(tmp_path: Path, column: str | None, ids: list[str | None]) -> None:
    table = TabularFiles("jsonl", [write(tmp_path / "a.jsonl", ROWS)], columns=Columns(id_column=column))
    assert [row.id for row in rows(table)] == ids


def test_contradictory_columns() -> None:
    with pytest.raises(BadRequest, match="only with `prompt_from` first-sentence"):
        Columns(keep_first_sentence=True)
    with pytest.raises(BadRequest, match="drop one of the two"):
        Columns(prompt_column="a", prompt_from="first-sentence")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_wrong_columns_are_listed(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"a.{kind}", [{"text": "x", "heading": "y"}])
    with pytest.raises(BadRequest, match=r"no column `story`; it has text, heading; name one with `story_column`"):
        rows(TabularFiles(kind, [path]))
    with pytest.raises(BadRequest, match=r"no column `prompt`.*set `prompt_from` to first-sentence"):
        rows(TabularFiles(kind, [path], columns=Columns(story_column="text")))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "p", "story": null}', r"a\.jsonl:2: null in column `story`; remove"),
        ('{"prompt": null, "story": "s"}', r"a\.jsonl:2: null in column `prompt`"),
        ('{"prompt": "p", "story": ["s"]}', r"a\.jsonl:2: column `story` holds a list; expected text"),
        ('{"prompt": "p"}', r"a\.jsonl:2: no column `story`; it has prompt"),
        ('{"prompt": "p", "sto', r"a\.jsonl:2: not JSON \(Unterminated string starting, column 17\)"),
        ("[1, 2]", r"a\.jsonl:2: a JSON list; expected one object per line"),
        ("[" * 100_000, r"a\.jsonl:2: JSON nested too deep"),
        ('{"prompt": "p", "story": "s", "id": null}', r"a\.jsonl:2: no usable id in column `id`"),
        ('{"prompt": "p", "story": "s", "id": " "}', r"a\.jsonl:2: no usable id in column `id`"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(ROWS[0]) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(BadRequest, match=message):
        rows(TabularFiles("jsonl", [path]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('prompt,story\n"a\nb",c\nx,y,z\n', r"a\.csv:4: 3 fields, the header has 2"),
        ('prompt,story\nx,"never closed\n', r"a\.csv:2: not CSV \(unexpected end of data\); check the quotes"),
        ('prompt,story\nx,"a"b\n', r"a\.csv:2: not CSV"),
    ],
)
def test_bad_csv(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(BadRequest, match=message):
        rows(TabularFiles("csv", [path]))


def test_bad_parquet(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ROWS)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"PAR1 nonsense", whole[:-20] + b"x" * 12 + whole[-8:]):
        path.write_bytes(broken)
        with pytest.raises(BadRequest, match=r"a\.parquet: not a Parquet file, or a truncated one"):
            rows(TabularFiles("parquet", [path]))
    path.write_bytes(b"")
    with pytest.raises(BadRequest, match="empty"):
        rows(TabularFiles("parquet", [path]))
    write(path, [{"prompt": "p", "story": "s"}, {"prompt": "p", "story": None}])
    with pytest.raises(BadRequest, match=r"a\.parquet: row 2: null in column `story`"):
        rows(TabularFiles("parquet", [path]))
    binary = pa.array([b"ok", b"\xff\xfe"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"prompt": ["p", "q"], "story": binary}), path)
    with pytest.raises(BadRequest, match=r"a\.parquet: row 2: not UTF-8"):
        rows(TabularFiles("parquet", [path]))


def test_given_splits(tmp_path: Path) -> None:
    for name in ("train", "validation", "test", "real_test", "notes"):
        write(tmp_path / f"{name}.jsonl", ROWS)
    named = [tmp_path / f"{name}.jsonl" for name in ("test", "train")]

    def splits(table: TabularFiles) -> list[str | None]:
        return [part.split for part in table.parts()]

    assert splits(TabularFiles("jsonl", [tmp_path])) == ["test", "train", "valid"]
    assert splits(TabularFiles("jsonl", named)) == ["test", "train"]
    assert splits(TabularFiles("jsonl", named[:1])) == [None]
    assert splits(TabularFiles("jsonl", [*named, tmp_path / "notes.jsonl"])) == [None] * 3
    assert splits(TabularFiles("jsonl", given={"valid": tmp_path / "notes.jsonl"})) == ["valid"]
    with pytest.raises(BadRequest, match="give one of the two"):
        splits(TabularFiles("jsonl", named, given={"valid": tmp_path / "notes.jsonl"}))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", ROWS)
    for table, message in (
        (TabularFiles("jsonl"), "give one of the two"),
        (TabularFiles("csv", [tmp_path]), r"no \*\.csv file in it"),
        (TabularFiles("jsonl", [tmp_path / "none.jsonl"]), "no such file"),
        (TabularFiles("jsonl", [path, tmp_path]), "a directory"),
        (TabularFiles("jsonl", [path, path]), "given twice"),
    ):
        with pytest.raises(BadRequest, match=message):
            table.parts()
    (tmp_path / "train.jsonl.gz").touch()
    with pytest.raises(BadRequest, match="keep one of the two"):
        TabularFiles("jsonl", [tmp_path]).parts()


def test_opening_or_title_takes_a_rows_own_title_else_makes_one_for_half_of_the_stories() -> None:
    columns = Columns(prompt_from="opening-or-title")
    story = "The fox lost his hat. The fox found the hat."
    own = columns.row(Record({"story": story, "title": "Lost"}, "x:1", 0))
    assert (own.prompt, own.story) == ("Lost", story)
    made = [columns.row(Record({"story": f"{story} {number} days on."}, "x:1", 0)) for number in range(20)]
    titled = [row for row in made if row.story.startswith(story)]
    assert 0 < len(titled) < 20
    assert all("fox" in row.prompt.lower() for row in titled)
    assert {row.prompt for row in made if row not in titled} == {"The fox lost his hat."}


def test_hub_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadRequest, match=r"pip install 'discodvt\[hub\]'"):
        HubDataset("some/dataset").parts()


def stand_in(data: dict[str, list[dict[str, Any]]]) -> ModuleType:
    """As much of `datasets` as the reader calls."""
    module = ModuleType("datasets")

    def load_dataset(name: str, config: str | None, *, split: str, revision: str | None, streaming: bool) -> Any:
        assert streaming
        if split not in data:
            raise ValueError(f"Bad split: {split}.\nAvailable: {list(data)}")
        return iter(data[split])

    vars(module).update(load_dataset=load_dataset, get_dataset_split_names=lambda *a, **k: list(data))
    return module


def test_hub_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"prompt": "p", "story": "s"}
    data = {"train": [row], "validation": [row, row], "extra": [row]}
    monkeypatch.setitem(sys.modules, "datasets", stand_in(data))
    assert [(part.split, part.label) for part in HubDataset("d").parts()] == [("train", "train"), ("valid", "valid")]
    mapped = HubDataset("d", split_map=parse_split_map("train=extra, test=validation"))
    assert [part.split for part in mapped.parts()] == ["train", "test"]
    assert len(rows(mapped)) == 3
    monkeypatch.setitem(sys.modules, "datasets", stand_in({"train": [row], "extra": [row]}))
    assert [part.split for part in HubDataset("d").parts()] == [None, None]
    with pytest.raises(BadRequest, match=r"d: Bad split: none\. Available.*check"):
        rows(HubDataset("d", split_map={"train": "none"}))
    with pytest.raises(BadRequest, match=r"d\[train\]: row 1: no column `text`; it has prompt, story"):
        rows(HubDataset("d", columns=Columns(story_column="text")))


@pytest.mark.parametrize("text", ["", "train", "train=", "dev=x", "train=a,train=b", "train=a,test=a"])
def test_bad_split_maps(text: str) -> None:
    with pytest.raises(BadRequest, match="expected train=NAME"):
        parse_split_map(text)


def test_hub_with_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("datasets", reason="the extra `hub` is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    data = tmp_path / "data"
    data.mkdir()
    for split in ("train", "validation"):
        (data / f"{split}.jsonl").write_text(json.dumps({"prompt": split, "story": "It ran."}) + "\n")
    source = HubDataset(str(data))
    assert [(part.split, [row.prompt for row in part.read(MAX_STORY_MB)]) for part in source.parts()] == [
        ("train", ["train"]),
        ("valid", ["validation"]),
    ]
