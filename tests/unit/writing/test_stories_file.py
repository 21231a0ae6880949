"""The file of stories: whole after every kill, refused to other requests, one run at a time."""

import json
from pathlib import Path

import pytest

from discodvt.errors import BadRequest
from discodvt.writing.generate_stage import open_stories, read_stories
from discodvt.writing.story import Story

IDS = ["a", "b", "c"]
CONFIG = {"model": "nano", "seed": 3, "plan": (1, 2), "top_p": 0.9}


def record(id: str) -> Story:
    return Story(id, f"prompt {id}", "Ein Fuchs. 🦊\u2028Ende.", (1, 2), 3, "nano", "end", ((1, 0, 4), (2, 4, 18)))


def write(path: Path, *, first: int = 0, stop: int = 3, **changes) -> None:
    with open_stories(path, IDS, config=CONFIG | changes) as stories:
        assert stories.held == first
        for id in IDS[first:stop]:
            stories.add(record(id))
        if stop == len(IDS):
            stories.output.finish(stories=stop)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    write(tmp_path / "whole.jsonl")
    return tmp_path / "whole.jsonl"


def test_records_come_back_as_they_were(whole):
    assert list(read_stories(whole)) == [record(id) for id in IDS]
    assert list(json.loads(whole.read_text().split("\n")[0]))[:7] == [
        "id", "prompt", "story", "plan", "seed", "model", "finish"]  # fmt: skip
    manifest = json.loads((whole.parent / "whole.jsonl.manifest.json").read_text())
    assert manifest["stage"] == "generate"
    assert manifest["facts"] == {"stories": 3}
    assert not (whole.parent / "whole.jsonl.stage.json").exists()


@pytest.mark.parametrize("torn", range(0, 200, 7))
def test_a_file_cut_at_any_byte_ends_as_the_whole_one(whole, tmp_path, torn):
    path = tmp_path / "killed.jsonl"
    write(path, stop=2)
    two = path.read_bytes()
    cut = two[: len(two) - torn]
    path.write_bytes(cut)
    write(path, first=cut.count(b"\n"))
    assert path.read_bytes() == whole.read_bytes()


def test_a_finished_file_is_left_alone(whole):
    before = {path: path.stat().st_mtime_ns for path in whole.parent.iterdir()}
    with open_stories(whole, IDS, config=CONFIG) as stories:
        assert stories.output.complete
        assert stories.held == 3
    assert {path: path.stat().st_mtime_ns for path in whole.parent.iterdir()} == before


@pytest.mark.parametrize("stop", [1, 3])
def test_another_request_is_refused_and_says_what_differs(tmp_path, stop):
    path = tmp_path / "stories.jsonl"
    write(path, stop=stop)
    before = path.read_bytes()
    with pytest.raises(
        BadRequest, match=r"another config \(seed: 3 there, 4 asked for; top_p: 0.9 there, 0.5 .*`overwrite`"
    ):
        write(path, seed=4, top_p=0.5)
    assert path.read_bytes() == before
    with open_stories(path, IDS, config=CONFIG | {"seed": 4}, overwrite=True) as stories:
        assert stories.held == 0


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_is_overwritten_stays_until_the_new_stories_are_complete(whole):
    before, other = {path: path.read_bytes() for path in whole.parent.iterdir()}, CONFIG | {"seed": 4}
    with (
        pytest.raises(BadRequest, match="no prior"),
        open_stories(whole, IDS, config=other, overwrite=True) as stories,
    ):
        raise BadRequest("no prior")
    assert {path: path.read_bytes() for path in whole.parent.iterdir()} == before
    with open_stories(whole, IDS, config=other, overwrite=True) as stories:  # killed after a story
        stories.add(record("a"))
    assert (whole.parent / "whole.jsonl.replaced").read_bytes() == before[whole]
    with open_stories(whole, IDS, config=other) as stories:
        assert stories.held == 1
        for id in IDS[1:]:
            stories.add(record(id))
        stories.output.finish(stories=3)
    assert names(whole.parent) == ["whole.jsonl", "whole.jsonl.manifest.json"]


def test_a_kill_while_stories_are_set_aside_loses_nothing(whole, monkeypatch):
    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    before = whole.read_bytes()
    with monkeypatch.context() as killed:
        killed.setattr("discodvt.artefacts.OutputFile._agree", kill)
        with (
            pytest.raises(KeyboardInterrupt),
            open_stories(whole, IDS, config=CONFIG | {"seed": 4}, overwrite=True),
        ):
            pass
    assert not whole.exists()
    with open_stories(whole, IDS, config=CONFIG) as stories:
        assert (stories.output.complete, stories.held) == (True, 3)
    assert whole.read_bytes() == before
    assert names(whole.parent) == ["whole.jsonl", "whole.jsonl.manifest.json"]


def test_two_runs_at_once_are_refused(tmp_path):
    path = tmp_path / "stories.jsonl"
    with open_stories(path, IDS, config=CONFIG) as stories:
        with pytest.raises(BadRequest, match="in use by another run"):
            write(path)
        stories.add(record("a"))
    write(path, first=1)


def test_files_of_others_are_never_touched(tmp_path):
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"precious": true}\n')
    for overwrite in (False, True):
        with (
            pytest.raises(BadRequest, match="not made by"),
            open_stories(mine, IDS, config=CONFIG, overwrite=overwrite),
        ):
            pass
    assert mine.read_text() == '{"precious": true}\n'
    for path in (tmp_path, mine / "x.jsonl"):
        with pytest.raises(BadRequest, match=r"not a file|cannot be written"), open_stories(path, IDS, config=CONFIG):
            pass


def test_a_changed_file_is_refused_with_the_line(tmp_path):
    path = tmp_path / "stories.jsonl"
    write(path, stop=2)
    first, second, _ = path.read_text().split("\n")
    path.write_text(f"{second}\n{first}\n")
    with pytest.raises(BadRequest, match="jsonl:1: story 'b' is out of place"):
        write(path)
    path.write_text(first + "\n{}\n")
    with pytest.raises(BadRequest, match=r"jsonl:2: no story.*no 'id'"):
        write(path)


def test_a_wrong_request_leaves_no_empty_file(tmp_path):
    with pytest.raises(BadRequest, match="codes"), open_stories(tmp_path / "x.jsonl", IDS, config=CONFIG):
        raise BadRequest("codes out of range")
    assert list(tmp_path.iterdir()) == []
