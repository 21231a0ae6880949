"""What is wrong with a request is said in the words of its command: the library's parameters as flags."""

import pytest

from discodvt.cli import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "jsonl", "a", "b", "--min-words", "0"], "--min-words 0: expected at least 1"),
        (["prepare", "csv", "a", "b", "--cut"], "--cut: nothing to cut to; give --max-words"),
        (["prepare", "hf", "a", "b", "--split-map", "x"], "--split-map x: expected train=NAME"),
        (["prepare", "jsonl", "only-out"], "give jsonl files as FILE... OUT, or as --train FILE"),
    ],
)
def test_errors_name_the_flag(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["discodvt", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith(f"discodvt: {message}")
