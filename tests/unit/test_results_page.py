"""docs/results.md says what the committed scores say, and nothing else."""

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def results():
    spec = importlib.util.spec_from_file_location("make_results", ROOT / "docs" / "make_results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_rebuilt_from_the_committed_scores(results):
    assert (ROOT / "docs" / "results.md").read_text(encoding="utf-8") == results.page()


def test_a_changed_score_changes_the_page_and_a_missing_system_has_no_number(results, monkeypatch, tmp_path):
    (tmp_path / "text.md").write_text("# Results\n")
    score = {"value": 0.25, "low": 0.2, "high": 0.3}
    difference = {"difference": -0.05, "low": -0.08, "high": -0.02}
    entry = {
        "seeds": [0], "stories": 4, "commands": ["discodvt evaluate x"], "paper": dict.fromkeys(results.MAIN, score),
        "training": [{"seed": 0, "alarms": [], "stages": [["codes", 7, 9], ["reconstruct", 5, 3], ["prior", 2, 1]]}],
        "words": {"story": [1, 1, 1], "reference": [2, 2, 2]},
    }  # fmt: skip
    run = {
        "grid": "x.toml", "title": "Toy", "prompts": {"toy": 4},
        "seeds": {"BART": [0, 1], "DiscoDVT": [0], "BART-LM": [0]},
        "steps": {"BART": [3, 3], "DiscoDVT": [3, 3], "BART-LM": [1, 3]},
        "systems": {"DiscoDVT": entry, "BART": entry | {"compared": dict.fromkeys(results.MAIN, difference)}},
    }  # fmt: skip
    (tmp_path / "toy.json").write_text(json.dumps(run))
    monkeypatch.setattr(results, "FILES", tmp_path)
    monkeypatch.setattr(results, "TEXT", tmp_path / "text.md")
    page = results.page()
    assert "| BART | 25.00 (20.00 to 30.00) |" in page
    assert "BART-LM (1 of 3 steps done)" in page
    assert "| BART-LM | not finished |" in page
    assert "BART (1 of 2)" in page
    assert "| DiscoDVT has more n-gram overlap than BART (B-1) | +5.00 (+2.00 to +8.00) | yes |" in page
    assert "| DiscoDVT repeats less than BART (rep-8) | +5.00 (+2.00 to +8.00) | no |" in page
    assert "| DiscoDVT against BART-LM | not finished | not run |" in page
    (tmp_path / "toy.json").write_text(json.dumps(run).replace("0.25", "0.26"))
    assert results.page() != page
    assert "| DiscoDVT | 0 | 7 / 9 | 5 / 3 | 2 / 1 | 1.0 (1.0 to 1.0) |" in page
    (tmp_path / "toy.json").write_text(json.dumps(run).replace('["codes", 7, 9]', '["codes", 7, 90]', 1))
    assert "no claim is judged" not in results.page()  # BART, too, saw less than DiscoDVT with its warm start
    (tmp_path / "toy.json").write_text(json.dumps(run).replace('["reconstruct", 5, 3]', '["reconstruct", 5, 4]', 1))
    assert "no claim is judged" in results.page()
    assert "| yes |" not in results.page()


def test_a_claim_is_held_only_by_an_interval_on_its_side(results):
    assert [results.verdict(*ends, 1) for ends in ((1, 2), (-2, -1), (-1, 1), (None, None))] == [
        "yes", "no", "undecided", "undecided",
    ]  # fmt: skip
    assert results.verdict(-2, -1, -1) == "yes"
    near, far = {"low": 1, "high": 2}, {"low": 3, "high": 4}
    assert (results.apart(far, near, 1), results.apart(near, far, 1), results.apart(near, near, 1)) == (
        "yes", "no", "undecided",
    )  # fmt: skip
