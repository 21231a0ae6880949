"""The prepare stage: what is kept, cut and dropped, where it goes, and that its directory can be trusted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from filelock import FileLock

from discodvt.artefacts import read_manifest
from discodvt.corpus import (
    Columns,
    Example,
    Options,
    SourcePart,
    SourceRow,
    TabularFiles,
    prepare,
    read_examples,
    records,
    split_files,
)
from discodvt.errors import BadRequest


class Lists:
    """A source of rows at hand, by part."""

    kind = "lists"

    def __init__(self, **parts: list[SourceRow]) -> None:
        self.given = parts

    def settings(self) -> dict[str, Any]:
        return {}

    def files(self) -> list[Path]:
        return []

    def parts(self) -> Sequence[SourcePart]:
        names = {"train", "valid", "test"}
        return [
            SourcePart(name, name if name in names else None, 0, lambda max_story_mb, rows=rows: iter(rows))
            for name, rows in self.given.items()
        ]


def row(story: str, prompt: str = "p", **more: Any) -> SourceRow:
    return SourceRow(prompt=prompt, story=story, place="here:1", **more)


def corpus(directory: Path) -> dict[str, list[Example]]:
    return {split: list(read_examples(path)) for split, path in split_files(directory).items()}


def test_held_out_stories_leave_train(tmp_path: Path) -> None:
    source = Lists(
        train=[row("A fox ran."), row("a  FOX\nran. "), row("A crow sang."), row("An owl.")],
        valid=[row("A crow sang."), row("An eel.")],
        test=[row("A fox ran."), row("A hen.", prompt="q")],
    )
    facts = prepare(source, tmp_path / "out").facts
    found = corpus(tmp_path / "out")
    assert {split: [(s.id, s.story) for s in stories] for split, stories in found.items()} == {
        "train": [("train-4", "An owl.")],
        "valid": [("valid-1", "A crow sang."), ("valid-2", "An eel.")],
        "test": [("test-1", "A fox ran."), ("test-2", "A hen.")],
    }
    assert facts["dropped"] == {"duplicate story": 3}
    assert facts["held_out_prompts_in_train"] == 1
    assert facts == read_manifest(tmp_path / "out", "prepare")["facts"]
    kept = prepare(source, tmp_path / "all", Options(deduplicate=False)).facts
    assert (kept["read"], kept["kept"]) == (8, 8)


def test_a_prompt_is_in_one_split_only(tmp_path: Path) -> None:
    rows = [row(f"Example {i}.", prompt=f"Prompt {i % 50}") for i in range(400)]
    prepare(Lists(data=rows), tmp_path, Options(split="50/25/25"))
    prompts = {split: {story.prompt for story in stories} for split, stories in corpus(tmp_path).items()}
    assert len(prompts) == 3
    assert sum(map(len, prompts.values())) == 50


def test_groups_stay_together_and_blank_prompts_do_not(tmp_path: Path) -> None:
    rows = [row(f"Segment {i}.", prompt="", id=f"b-{i}", group=f"book {i % 20}") for i in range(200)]
    prepare(Lists(data=rows), tmp_path / "books", Options(split="50/25/25"))
    books = {split: {int(s.id[2:]) % 20 for s in found} for split, found in corpus(tmp_path / "books").items()}
    assert sum(map(len, books.values())) == 20
    prepare(Lists(data=[row(f"S {i}.", prompt=" ") for i in range(200)]), tmp_path / "blank", Options(split="1/1/1"))
    assert len(corpus(tmp_path / "blank")) == 3


def test_shares_on_request_override_given_splits(tmp_path: Path) -> None:
    rows = {name: [row(f"{name} {i}.", prompt=f"{name} {i}") for i in range(5)] for name in ("train", "test")}
    prepare(Lists(**rows), tmp_path, Options(split="0/1/0"))
    assert [story.id for story in corpus(tmp_path)["valid"]][4:6] == ["train-5", "test-1"]
    assert list(corpus(tmp_path)) == ["valid"]


def test_lengths(tmp_path: Path) -> None:
    rows = [row("One."), row("One two. Three four."), row("One two three four five."), row(" \n"), row("a b c d")]
    dropped = prepare(Lists(train=rows), tmp_path / "drop", Options(min_words=2, max_words=4)).facts
    assert dropped["dropped"] == {"empty story": 1, "over max words": 1, "under min words": 1}
    options = Options(max_words=3, cut=True)
    cut = prepare(Lists(train=rows), tmp_path / "cut", options).facts
    assert [story.story for story in corpus(tmp_path / "cut")["train"]] == ["One.", "One two."]
    assert (cut["cut_to_max_words"], cut["dropped"]) == (1, {"empty story": 1, "over max words": 2})
    assert cut["all"] == {"stories": 2, "input_words": 1.0, "output_words": 1.5}
    short = prepare(
        Lists(train=[*rows, row("a b c")]),
        tmp_path / "short",
        Options(min_words=3, max_words=3, cut=True, deduplicate=False),
    )
    assert short.facts["dropped"]["under min words"] == 2


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    source = Lists(train=[row("A \ud83d fox.", prompt="\udc00", id="\ud800")])
    assert prepare(source, tmp_path).facts["lone_surrogates_replaced"] == 1
    assert corpus(tmp_path)["train"] == [Example(id="\ufffd", prompt="\ufffd", story="A \ufffd fox.")]


def test_limit_counts_what_is_kept(tmp_path: Path) -> None:
    rows = [row(f"Example {i // 2}.") for i in range(20)]
    assert prepare(Lists(data=rows), tmp_path / "drawn", Options(limit=3)).facts["kept"] == 3
    given = prepare(Lists(train=rows, test=[row(f"Test {i}") for i in range(9)]), tmp_path / "given", Options(limit=3))
    assert [given.facts["splits"][split]["stories"] for split in ("train", "valid", "test")] == [3, 0, 3]


def test_ids_are_unique_within_a_split(tmp_path: Path) -> None:
    prepare(Lists(train=[row("a", id="1")], test=[row("b", id="1")]), tmp_path / "ok")
    prepare(Lists(data=[row("a", id="1"), row("A", id="1")]), tmp_path / "same")
    with pytest.raises(BadRequest, match=r"here:1: the id `1` was there before; .*`id_column` ''"):
        prepare(Lists(data=[row("a", id="1"), row("b", id="1")]), tmp_path / "bad")
    with pytest.raises(BadRequest, match="some rows have an id, some none"):
        prepare(Lists(data=[row("a"), row("b", id="1")]), tmp_path / "bad")


def test_numbers_go_on_over_files_of_one_name(tmp_path: Path) -> None:
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(tmp_path / folder / "x.jsonl")
        files[-1].write_text(json.dumps({"story": f"It was {folder}. Yes."}) + "\n")
    columns = Columns(prompt_from="first-sentence", keep_first_sentence=True)
    prepare(TabularFiles("jsonl", files, columns=columns), tmp_path / "out", Options(split="1/0/0"))
    assert [story.id for story in corpus(tmp_path / "out")["train"]] == ["x-1", "x-2"]
    assert list(read_manifest(tmp_path / "out")["inputs"]) == ["a/x.jsonl", "b/x.jsonl"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "9/1"}, "three shares"),
        ({"min_words": 0}, "`min_words` 0: expected at least 1"),
        ({"limit": -1}, "`limit` -1: expected at least 1"),
        ({"min_words": 9, "max_words": 3}, "more than `max_words` 3"),
        ({"cut": True}, "give `max_words`"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        Options(**options)


def test_nothing_left_is_an_error_that_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"no story is left of 2 read \(1 empty story, 1 under min words\); loosen"):
        prepare(Lists(data=[row(""), row("a")]), tmp_path, Options(min_words=5))
    assert list(tmp_path.iterdir()) == []
    prepare(Lists(data=[row("a")]), tmp_path)


def test_the_directory(tmp_path: Path) -> None:
    source, out = Lists(data=[row("a")]), tmp_path / "out"
    assert not prepare(source, out).already_complete
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert prepare(source, out).already_complete
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    differs = r"holds a finished `prepare` with another config \(seed: 42 there, 1 asked for\); .*`overwrite`"
    with pytest.raises(BadRequest, match=differs):
        prepare(source, out, Options(seed=1))
    prepare(source, out, Options(seed=1), overwrite=True)
    with FileLock(out / ".lock"), pytest.raises(BadRequest, match="in use by another run"):
        prepare(source, out)


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    prepare(Lists(train=[row("a")], test=[row("b")]), tmp_path)
    with pytest.raises(BadRequest, match=r"holds .*t.*\.parquet, which is read; choose another"):
        prepare(TabularFiles("parquet", [tmp_path]), tmp_path, overwrite=True)
    assert len(corpus(tmp_path)) == 2


def test_long_stories_make_short_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHARACTERS_PER_BLOCK", 100)
    prepare(Lists(train=[row(f"{i} " * 30) for i in range(10)]), tmp_path)
    assert pq.ParquetFile(tmp_path / "train.parquet").num_row_groups == 5
    assert [story.id for story in read_examples(tmp_path / "train.parquet", skip=3, take=2)] == ["train-4", "train-5"]


def test_progress_ends_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"prompt": str(i), "story": f"Example {i}"}) + "\n" for i in range(600)))
    seen: list[tuple[int, int, int]] = []
    prepare(TabularFiles("jsonl", [path]), tmp_path / "out", on_progress=lambda *now: seen.append(now))
    size = path.stat().st_size
    assert seen[-1] == (size, size, 600)
    assert seen == sorted(seen)
    assert len(seen) == 3


def test_a_story_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    source = Lists(data=[row("a"), row("a" * ((1 << 20) + 1))])
    with pytest.raises(BadRequest, match="here:1: a story of more than 1 MB; split it, or raise `max_story_mb`"):
        prepare(source, tmp_path / "out", max_story_mb=1)
    assert not (tmp_path / "out").exists()
    assert prepare(source, tmp_path / "out", max_story_mb=2).facts["kept"] == 2
    with pytest.raises(BadRequest, match="`max_story_mb` 0"):
        prepare(source, tmp_path / "out", max_story_mb=0)
