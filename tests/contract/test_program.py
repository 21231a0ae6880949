"""What the README promises of the program: quick help, one-line errors, JSON alone on standard output."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from program import refused, run

from discodvt.writing import Request, SamplingParams, StoryWriter
from discodvt.writing.story_batch import StoryDraft

ROOT = Path(__file__).resolve().parents[2]


def run_alone(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=120, cwd=ROOT)


def test_help_loads_no_heavy_library() -> None:
    heavy = ("torch", "transformers", "spacy", "pyarrow", "matplotlib", "scipy")
    code = f"import sys, discodvt.cli; print([name for name in {heavy} if name in sys.modules])"
    assert run_alone(sys.executable, "-c", code).stdout.strip() == "[]"


def test_module_and_script_are_the_same_program() -> None:
    assert run_alone(sys.executable, "-m", "discodvt", "--version").stdout.startswith("discodvt ")
    assert run_alone(str(Path(sys.executable).with_name("discodvt")), "--version").stdout.startswith("discodvt ")


def test_doctor_finds_everything() -> None:
    result = run("doctor", "--json")
    assert result.returncode == 0, result.stdout
    assert json.loads(result.stdout)["bundled parser"] == "ready"


def test_the_public_names_can_be_imported() -> None:
    import discodvt

    assert all(getattr(discodvt, name) for name in discodvt.__all__)


@pytest.mark.parametrize("page", ["README.md", "docs/writing.md"])
def test_python_runs_as_printed(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the lengths of stories."""
    draft = StoryWriter.draft

    def short(self: StoryWriter, request: Request, params: SamplingParams) -> StoryDraft:
        draft(self, request, params)  # what is printed can be asked for
        return draft(self, request, replace(params, max_tokens=12))

    monkeypatch.setattr(StoryWriter, "draft", short)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert blocks
    monkeypatch.chdir(ROOT)
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "__main__"})


def test_the_readmes_make_commands_exist() -> None:
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert {"story", "test"} <= named <= targets


def test_no_machine_paths_in_what_is_tracked() -> None:
    tracked = run_alone("git", "ls-files", "-z").stdout.split("\0")
    pattern = re.compile(r"(?:^|[^A-Za-z0-9_.])/(?:w[o]rk|r[o]ot|h[o]me/\w+)/")
    texts = (ROOT / name for name in tracked if name.endswith((".py", ".md", ".toml", ".cfg", ".json", ".sh", ".txt")))
    assert [str(path) for path in texts if path.exists() and pattern.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["generate", "--seed", "many"], "Invalid value for '--seed': "),
        (["generate", "--colour"], "No such option: --colour"),
        (["evaluate"], "Missing argument"),
        (["write"], "No such command 'write'"),
    ],
)
def test_wrong_words_are_one_line(words: list[str], said: str) -> None:
    line = refused(run(*words))
    assert line.startswith(f"discodvt: {said}")
    assert line.endswith(" --help")


def test_prompts_come_from_standard_input_and_any_terminal_is_written_to() -> None:
    """On one of letters alone a plan is shown as well as it can be; of JSON see `test_platforms`."""
    words, prompts = ("generate", "--prompts", "-", "--max-tokens", "12"), "A fox 🦊\n\nA bear\n".encode()
    shown = run(*words, "--show-plan", given=prompts, encoding="ascii")
    assert shown.returncode == 0, shown.stderr
    assert "A fox ?" in shown.stdout
    assert "A bear" in shown.stdout
