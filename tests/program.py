"""The `discodvt` program in this process, as a user meets it; a process of its own would import for seconds."""

import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from subprocess import CompletedProcess

import pytest

from discodvt.cli import main

Run = Callable[..., CompletedProcess[str]]


def run(*words: object) -> CompletedProcess[str]:
    """Exit code, standard output and standard error of `discodvt WORDS`."""
    command = ["discodvt", *map(str, words)]
    streams = [TextIOWrapper(BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as stop:
            main()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return CompletedProcess(command, stop.value.code if isinstance(stop.value.code, int) else 0, out, err)


def refused(result: CompletedProcess[str], *words: str, code: int = 2) -> str:
    """The one line of a wrong request, which has all `words`."""
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("discodvt: ")
    assert [word for word in words if word not in line] == []
    return line
