"""What is wrong with a request is said in the words of its command: parameters of the library as flags."""

from pathlib import Path

import pytest

from discodvt.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "jsonl", "a", "b", "--min-words", "0"], "--min-words 0: expected at least 1"),
        (["prepare", "csv", "a", "b", "--cut"], "--cut: nothing to cut to; give --max-words"),
        (["prepare", "hf", "a", "b", "--split-map", "x"], "--split-map x: expected train=NAME"),
        (["generate", "Ann", "--words", "0"], "--words 0: expected a whole number, 1 to 100,000"),
        (["generate", "Ann", "--words", "9", "--max-tokens", "5"], "--words and --max-tokens: both say how long"),
        (["generate", "Ann", "--lock", "1:999"], "--lock: code 999 is none of the model's 256"),
        (["prepare", "jsonl", "only-out"], "give jsonl files as FILE... OUT, or as --train FILE"),
        (["codes", "mesure", "a", "b", "c"], "No such command 'mesure'. Did you mean 'measure'?; commands: study, "),
        (["prepare", "x", "a", "b"], "No such command 'x'; commands: wikiplots, writingprompts, books, jsonl, csv"),
    ],
)
def test_errors_name_flags_and_commands(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["discodvt", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"discodvt: {message}")


def test_a_checkpoint_may_stand_where_a_command_is_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["discodvt", "codes", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "Missing argument 'corpus'" in capsys.readouterr().err


def test_a_name_that_is_not_utf8_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**given: object) -> None:
        "a\udce9".encode()

    monkeypatch.setattr("sys.argv", ["discodvt", "doctor", "caf\udce9"])
    monkeypatch.setattr("discodvt.cli.app", refuse)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "caf?: a name that is not UTF-8" in capsys.readouterr().err.replace("\udce9", "?")
