"""`discodvt doctor`: every library the package names, every file that ships, and how to get what is missing."""

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from shutil import copytree

import pytest
import typer

from discodvt.cli.doctor import EXTRAS, NEEDED, doctor

ROOT = Path(__file__).resolve().parents[3]
ALWAYS_THERE = {"numpy", "typer"}  # under the others, or not of the program itself


def test_all_dependencies_and_extras_are_looked_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = re.compile(r"[\w-]+")
    assert {name.match(each)[0] for each in project["dependencies"]} - ALWAYS_THERE == set(NEEDED)
    extras = project["optional-dependencies"]
    assert set(EXTRAS.values()) == extras.keys() - {"dev"}
    for package, extra in EXTRAS.items():
        assert package in {name.match(each)[0] for each in extras[extra]}


def test_a_storyteller_that_is_missing_or_cut_short_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copytree(ROOT / "src" / "discodvt" / "assets", tmp_path / "assets")
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    doctor(json=True)
    assert json.loads(capsys.readouterr().out)["bundled storyteller"] == "ready"
    weights = tmp_path / "assets" / "storyteller" / "prior" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    (tmp_path / "assets" / "storyteller" / "tokenizer.json").unlink()
    with pytest.raises(typer.Exit):
        doctor(json=True)
    state = json.loads(capsys.readouterr().out)["bundled storyteller"]
    assert state == "MISSING: tokenizer.json, prior/model.safetensors; install discodvt again"


def test_how_to_get_an_extra_can_be_copied(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("discodvt.cli.doctor.EXTRAS", {"no-such-package": "hub"})
    doctor()
    assert "pip install 'discodvt[hub]'" in capsys.readouterr().out
