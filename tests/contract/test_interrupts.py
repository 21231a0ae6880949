"""Ctrl-C at any moment, imports included, is one line and exit code 130."""

import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPT_AT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

MODULE, *sys.argv[1:] = sys.argv[1:]
from discodvt.__main__ import main
sys.meta_path.insert(0, Interrupting())
main()
"""
INTERRUPT_IN = """
import sys
import discodvt.corpus.preparation as preparation

def write(self, stage):
    raise KeyboardInterrupt

preparation._Preparation.write = write
from discodvt.__main__ import main
main()
"""


INTERRUPT_BEFORE = """
import typer

def get_command(app):
    raise KeyboardInterrupt

import discodvt.cli
typer.main.get_command = get_command
from discodvt.__main__ import main
main()
"""


def run(code: str, *arguments: object) -> tuple[int, str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return result.returncode, result.stderr


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("typer", "doctor"),
        ("discodvt.cli.prepare", "doctor"),
        ("importlib.metadata", "doctor"),
        ("pyarrow", "prepare jsonl none.jsonl out"),
        ("torch", "generate fox"),
        ("spacy", "annotate --show README.md"),
    ],
)
def test_while_modules_are_imported(module: str, command: str) -> None:
    assert run(INTERRUPT_AT, module, *command.split()) == (130, "discodvt: interrupted\n")


def test_before_a_command_is_at_work() -> None:
    assert run(INTERRUPT_BEFORE, "doctor") == (130, "discodvt: interrupted\n")


def test_at_work(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "p", "story": "s"}\n')
    code, error = run(INTERRUPT_IN, "prepare", "jsonl", tmp_path / "a.jsonl", tmp_path / "out")
    assert (code, error) == (130, "discodvt: interrupted; what is written is kept, and the same command goes on\n")
