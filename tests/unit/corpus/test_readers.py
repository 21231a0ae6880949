"""Wikiplots, WritingPrompts, books and Hub datasets, each from small files."""

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from discodvt.corpus import Books, Columns, HubDataset, Row, Source, Wikiplots, WritingPrompts
from discodvt.corpus.readers.hub import parse_split_map
from discodvt.errors import BadRequest


def rows(source: Source) -> list[Row]:
    return [row for part in source.parts() for row in part.read()]


def wikiplots(directory: Path, titles: str, plots: str) -> Wikiplots:
    (directory / "titles").write_text(titles, encoding="utf-8", newline="")
    (directory / "plots.zst").write_bytes(pa.compress(plots.encode(), codec="zstd", asbytes=True))
    return Wikiplots(directory)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_wikiplots(tmp_path: Path, end: str) -> None:
    plots = ["It ran.", "It slept.", "<EOS>", "<EOS>", "It sang.", "<EOS>"]
    found = rows(wikiplots(tmp_path, end.join(["Fox", "None", "Crow", "", ""]), end.join([*plots, ""])))
    assert [(row.prompt, row.story) for row in found] == [
        ("Fox", "It ran. It slept."),
        ("None", ""),
        ("Crow", "It sang."),
    ]
    assert found[0].place.endswith("plots.zst:3")
    assert len(rows(wikiplots(tmp_path, "Fox\nCrow", "It ran.\n<EOS>\nIt sang."))) == 2


@pytest.mark.parametrize(("titles", "counts"), [("a\n", (1, 2)), ("a\nb\nc\nd\n", (4, 2))])
def test_titles_and_plots_must_match(tmp_path: Path, titles: str, counts: tuple[int, int]) -> None:
    message = rf"titles: {counts[0]} titles, but .*plots.zst has {counts[1]} plots"
    with pytest.raises(BadRequest, match=message):
        rows(wikiplots(tmp_path, titles, "x\n<EOS>\ny\n<EOS>\n"))


def test_wikiplots_needs_both_files(tmp_path: Path) -> None:
    (tmp_path / "titles").touch()
    with pytest.raises(BadRequest, match="expected the files `titles` and `plots`"):
        Wikiplots(tmp_path).files()


def test_writingprompts(tmp_path: Path) -> None:
    (tmp_path / "train.wp_source").write_text("[ WP ] A café\n[ EU ] A crow\n", encoding="utf-8")
    (tmp_path / "train.wp_target").write_text("One . <newline> <newline> Two .\nIt sang .\n", encoding="utf-8")
    (tmp_path / "test.wp_source.gz").write_bytes(gzip.compress(b"[ WP ] x\n"))
    (tmp_path / "test.wp_target.gz").write_bytes(gzip.compress(b"y\n"))
    source = WritingPrompts(tmp_path)
    assert [(part.split, part.label) for part in source.parts()] == [("train", "train"), ("test", "test")]
    assert [(row.prompt, row.story) for row in rows(source)][:2] == [
        ("[ WP ] A cafe", "One . Two ."),
        ("[ EU ] A crow", "It sang ."),
    ]
    assert [row.prompt for row in rows(WritingPrompts(tmp_path, strip_tags=True))] == ["A cafe", "A crow", "x"]


def test_writingprompts_pairs_must_match(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"expected train\.wp_source and train\.wp_target"):
        WritingPrompts(tmp_path).files()
    (tmp_path / "valid.wp_source").write_text("a\nb\n")
    with pytest.raises(BadRequest, match=r"no valid\.wp_target"):
        WritingPrompts(tmp_path).files()
    (tmp_path / "valid.wp_target").write_text("a\nb\nc\nd\n")
    with pytest.raises(BadRequest, match=r"valid\.wp_source: 2 lines, but .*valid\.wp_target has 4;"):
        rows(WritingPrompts(tmp_path))
    (tmp_path / "valid.wp_target").write_text("a\n")
    with pytest.raises(BadRequest, match=r"valid\.wp_target: 1 lines, but .*valid\.wp_source has 2;"):
        rows(WritingPrompts(tmp_path))


def test_books_by_file_and_by_row(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "one.txt").write_bytes(b"a b c\r\nd e\r\n\r\nf g\r\n")
    (tmp_path / "more" / "one.txt.gz").write_bytes(gzip.compress(b"x y z\n"))
    books = [{"story": "1 2 3 4 5 6"}, {"story": "7 8"}, {"story": "9 10 11"}]
    (tmp_path / "two.jsonl").write_text("".join(json.dumps(book) + "\n" for book in books))
    found = rows(Books(tmp_path, segment_length=3))
    assert [(row.id, row.story, row.group) for row in found] == [
        ("more/one-1", "x y z", "more/one"),
        ("one-1", "a b c", "one"),
        ("one-2", "d e\n\nf", "one"),
        ("two-1-1", "1 2 3", "two-1"),
        ("two-1-2", "4 5 6", "two-1"),
        ("two-3-1", "9 10 11", "two-3"),
    ]
    assert {row.prompt for row in found} == {""}


def test_books_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadRequest, match=r"no such file or directory|no \.txt or \.jsonl"):
            Books(path).files()
    (tmp_path / "a.txt").write_text("a b")
    (tmp_path / "a.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(BadRequest, match="keep one of the two"):
        Books(tmp_path).files()
    with pytest.raises(BadRequest, match=r"a\.jsonl:1: no column `story`; it has text; name one with `story_column`"):
        rows(Books(tmp_path / "a.jsonl"))
    with pytest.raises(BadRequest, match="no tokenizer; expected"):
        Books(tmp_path / "a.txt", tokenizer=tmp_path).files()


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
    assert [(part.split, [row.prompt for row in part.read()]) for part in source.parts()] == [
        ("train", ["train"]),
        ("valid", ["validation"]),
    ]
