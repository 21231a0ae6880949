"""A new process on a machine unlike this one: no `fcntl` (Windows), a terminal of letters alone, little time."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from unit.writing.toy_writer import save_writer

import discodvt

ELSEWHERE = """
import sys
sys.modules["fcntl"] = None  # importing it is an ImportError from here on
from discodvt import StoryWriter
from discodvt.cli import main
bart, output = sys.argv[1:]
for words in ("--prompts", "-", "--json"), ("A fox", "--output", output):
    sys.argv[1:] = ["generate", "--max-tokens", "12", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code
StoryWriter.from_pretrained(bart).write("Ann", max_tokens=3)
slow = [name for name in ("transformers", "scipy", "sympy") if name in sys.modules]
assert slow == [], slow
"""


def test_nothing_imports_fcntl_by_itself() -> None:
    imports = re.compile(r"^(import|from) fcntl", re.MULTILINE)
    sources = Path(discodvt.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []


def test_stories_are_written_elsewhere_and_no_model_classes_are_imported(tmp_path: Path) -> None:
    """JSON is whole on any terminal, and nothing stands beside it; of the storyteller and of a BART."""
    output = tmp_path / "new" / "stories.jsonl"
    command = [sys.executable, "-c", ELSEWHERE, str(save_writer(tmp_path / "bart")), str(output)]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "999"}
    result = subprocess.run(command, input="A fox 🦊\n\nA bear\n".encode(), capture_output=True, env=environment)
    assert result.returncode == 0, result.stderr
    *stories, last = result.stdout.decode("utf-8").split("\n")[:-1]
    assert [json.loads(story)["prompt"] for story in stories] == ["A fox 🦊", "A bear"]
    assert sorted(path.name for path in output.parent.iterdir()) == ["stories.jsonl", "stories.jsonl.manifest.json"]
    said = [line for line in result.stderr.decode().splitlines() if "soft file lock" not in line]
    assert said == [f"1 story in {output}"]
    assert last == json.loads(output.read_text(encoding="utf-8"))["story"]
