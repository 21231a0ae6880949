"""The measurement of wishes: its pairs are those of the command, and a run that was stopped goes on."""

import json
import sys
from pathlib import Path

import pytest
from unit.writing.toy_writer import save_writer

from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.candidates import Wish, write_best

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "recipes" / "nano"))

import wishes

PROMPTS = ["The fox who lost his hat", "A café", "Ann and the dog"]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> StoryWriter:
    return StoryWriter.from_pretrained(save_writer(tmp_path_factory.mktemp("toy")))


def test_pairs_are_those_that_a_wish_of_the_command_gives(writer: StoryWriter, tmp_path: Path) -> None:
    rows = wishes.Wishes(writer, tmp_path / "out.json", candidates=3, seed=5).write(PROMPTS, "because", 2)
    requests = [Request(prompt, index=number, seed=5) for number, prompt in enumerate(PROMPTS)]
    best = list(write_best(writer, requests, SamplingParams(), candidates=3, wish=Wish(2, "because")))
    assert [row["wished"]["story"] for row in rows] == [story.text for story in best]
    assert [row["unwished"]["story"] for row in rows] == [story.notes["candidates"][0]["story"] for story in best]
    assert [row["prompt"] for row in rows] == PROMPTS


def test_what_was_written_is_not_written_again(
    writer: StoryWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.json"
    first = wishes.Wishes(writer, out, candidates=2, seed=0)
    kept = first.write(PROMPTS[:2], "so", 1)
    with (tmp_path / "out.jsonl").open("a") as file:
        file.write('{"half of a li')  # stopped here
    again = wishes.Wishes(writer, out, candidates=2, seed=0)
    whole = again.write(PROMPTS, "so", 1)
    assert whole[:2] == kept
    third = wishes.Wishes(writer, out, candidates=2, seed=0)
    monkeypatch.setattr(StoryWriter, "write_many", lambda *given, **more: pytest.fail("written again"))
    assert third.write(PROMPTS, "so", 1) == whole
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 4
    with pytest.raises(SystemExit, match=r"out\.jsonl: begun with another model"):
        wishes.Wishes(writer, out, candidates=2, seed=1)


def test_shares_and_the_judges_sample() -> None:
    def row(marker: str, prompt: str, wished: str, unwished: str) -> wishes.Row:
        return {"marker": marker, "prompt": prompt, "wished": {"found": wished}, "unwished": {"found": unwished}}

    rows = [row(marker, str(prompt), "beside", "nowhere") for marker in ("so", "as") for prompt in range(9)]
    rows += [row("so", "9", "here", "here"), row("as", "9", "nowhere", "nowhere")]
    found = wishes.shares(rows)
    assert [found[name]["value"] for name in ("wished", "unwished", "times as often")] == [0.95, 0.05, 19]
    drawn = wishes.sample(rows, 6)
    assert [each["marker"] for each in drawn] == ["so"] * 3 + ["as"] * 3
    assert drawn == wishes.sample(rows, 6)
    assert len({json.dumps(each) for each in drawn}) == 6
