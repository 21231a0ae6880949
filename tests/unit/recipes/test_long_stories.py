"""Long stories, measured: heroes, ends and repetition, fluency by quarter, and a run that is stopped goes on."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

RECIPE = Path(__file__).resolve().parents[3] / "recipes" / "nano"
sys.path.insert(0, str(RECIPE))

import judge  # noqa: E402
import long_stories  # noqa: E402
import smollm  # noqa: E402


class Stopped(Exception):
    pass


class FakeJudge:
    """Tokens of the last quarter cost twice those of the first; `left` texts can be judged before it is stopped."""

    left = 100
    asked: list[str] = []  # noqa: RUF012

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.held = json.loads(cache.read_text()) if cache.exists() else []

    def score(self, pairs: list[tuple[str, str]]) -> list[smollm.TokenLosses]:
        ((_, text),) = pairs
        if text not in self.held:
            if FakeJudge.left == 0:
                raise Stopped
            FakeJudge.left -= 1
            FakeJudge.asked.append(text)
            self.cache.write_text(json.dumps([*self.held, text]))
            self.held.append(text)
        nll = np.repeat(np.array([1.0, 1.2, 1.4, 2.0], dtype=np.float32), 10)
        return [smollm.TokenLosses(nll, np.arange(40, dtype=np.int32))]


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The script with three given stories in place of `discodvt generate`."""
    told = ["The fox ran home. " * 20, "The owl sang. " * 30, "A snail came by and then"]

    def generate(command: list[str], check: bool) -> None:
        prompts = Path(command[command.index("--prompts") + 1]).read_text().splitlines()
        assert len(prompts) == int(command[command.index("--words") + 1]) == 3
        rows = [
            {"prompt": prompt, "story": story.strip(), "finish": "end"}
            for prompt, story in zip(prompts, told, strict=True)
        ]
        Path(command[-1]).write_text("".join(json.dumps(row) + "\n" for row in rows))

    monkeypatch.setattr(long_stories.subprocess, "run", generate)
    monkeypatch.setattr(smollm, "Judge", FakeJudge)
    monkeypatch.setattr(FakeJudge, "left", 100)
    monkeypatch.setattr(FakeJudge, "asked", [])

    def run(*words: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["it", str(tmp_path), "--prompts", "3", "--words", "3", *words])
        long_stories.main()
        return dict(json.loads((tmp_path / "scores.json").read_text()))

    run.out = tmp_path  # type: ignore[attr-defined]
    return run


def test_every_story_is_judged_and_promises_are_held_against_the_figures(measured: Any) -> None:
    found = measured()
    scores = found["scores"]
    assert scores["last quarter / first"]["value"] == pytest.approx(np.exp(1.0))
    assert scores["perplexity of quarter 2"]["value"] == pytest.approx(np.exp(1.2))
    assert {scores[name]["n"] for name in ("words", "last quarter / first")} == {3}
    assert scores["end with a sentence"]["value"] == pytest.approx(2 / 3)
    kept = {"end with a sentence": False, "heroes that stay": False, "last quarter / first": False}
    assert found["promises kept"] == kept
    assert [row["hero"] for row in found["heroes"]] == ["fox", "owl", ""]
    assert "perplexity of quarter 1" not in measured("--no-judge")["scores"]


def test_a_stopped_run_goes_on_with_the_next_story(measured: Any) -> None:
    FakeJudge.left = 2
    with pytest.raises(Stopped):
        measured()
    so_far = json.loads((measured.out / "scores.json").read_text())
    assert so_far["scores"]["last quarter / first"]["n"] == 2
    FakeJudge.left, FakeJudge.asked = 100, []
    assert measured()["scores"]["last quarter / first"]["n"] == 3
    assert len(FakeJudge.asked) == 1


def test_heroes_are_those_of_the_first_quarter() -> None:
    title = judge.Title("The owl's day", "test", "title", "owl", ("owl",))
    assert long_stories.hero_of("The owl woke. " * 4 + "Nobody came. " * 12, title) == "owl"
    assert long_stories.hero_of("The mouse woke. " * 4 + "The owl came. " * 12, title) == "mouse"
