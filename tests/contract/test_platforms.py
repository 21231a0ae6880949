"""The package runs where there is no `fcntl` (Windows)."""

import re
import subprocess
import sys
from pathlib import Path

import discodvt

WITHOUT_FCNTL = """
import sys
sys.modules["fcntl"] = None  # importing it is an ImportError from here on
from discodvt.cli import main
sys.argv[1:] = ["generate", "A fox", "--max-tokens", "12", "--output", sys.argv[1]]
main()
"""


def test_nothing_imports_fcntl_by_itself() -> None:
    imports = re.compile(r"^(import|from) fcntl", re.MULTILINE)
    sources = Path(discodvt.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []


def test_a_story_is_written_without_fcntl(tmp_path: Path) -> None:
    output = tmp_path / "new" / "stories.jsonl"
    result = subprocess.run([sys.executable, "-c", WITHOUT_FCNTL, str(output)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in output.parent.iterdir()) == ["stories.jsonl", "stories.jsonl.manifest.json"]
