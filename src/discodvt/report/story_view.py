"""A written story in the terminal: with its plan, each code beside the text it governs, or streamed as plain text."""

from collections.abc import Iterator
from itertools import pairwise

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from discodvt.report.code_colours import INK, tint
from discodvt.writing.stories_file import StoryRecord


class PlanView:
    """The story row by row, each code beside its text; `[ 12] text` where the console has no colours."""

    def __init__(self, record: StoryRecord) -> None:
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = console.color_system is not None and not console.no_color
        yield Text(self.record.prompt, style="bold")
        yield ""
        if not self.record.segments:  # written without a plan
            yield Text(self.record.story)
        for code, piece in plan_rows(self.record):
            lines = Text(piece).wrap(console, options.max_width - 2 - len(_label(code)))
            for number, line in enumerate(lines):
                label = _label(code if number == 0 else None)
                yield _coloured(code, label, line.plain) if coloured else Text(f"{label} {line.plain}".rstrip())
        yield ""
        yield Text(summary(self.record), style="dim")


def plan_rows(record: StoryRecord) -> Iterator[tuple[int | None, str]]:
    """Each code with the words that begin under it; None for text beyond the plan.

    A code may end inside a word, or before a comma: for reading, that word stays whole in the row it begins in.
    """
    story, at = record.story, 0
    for (code, _, end), (_, _, limit) in pairwise((*record.segments, *record.segments[-1:])):
        whole = end
        while 0 < whole < limit and not (story[whole].isspace() or story[whole - 1].isspace()):
            whole += 1
        end = end if whole == limit else whole  # never all the text of the next code
        yield code if code >= 0 else None, story[at:end].strip()
        at = end


def _label(code: int | None) -> str:
    return "     " if code is None else f"[{code:>3}]"


def _coloured(code: int | None, label: str, text: str) -> Text:
    if code is None or not (text or label.strip()):
        return Text(f"{label} {text}")
    number = label.translate({ord("["): " ", ord("]"): " "})
    return Text.assemble(
        (number, f"bold {INK} on {tint(code, lightness=0.7)}"), (f" {text} ", f"{INK} on {tint(code)}")
    )


def summary(record: StoryRecord) -> str:
    """One line: how much of the plan was used, how long the story is, how it ended, which seed."""
    reached = sum(code >= 0 for code, _, _ in record.segments)
    codes = f"{len(record.plan)} codes" + (f", {reached} reached" if reached < len(record.plan) else "")
    ended = "ended by itself" if record.finish == "end" else "cut at the length limit"
    words = f"{len(record.story.split())} words"
    return " · ".join(([codes] if record.plan else []) + [words, ended, f"seed {record.seed}"])


class LiveText:
    """Text that arrives in pieces, printed at once and broken between words at the width of the terminal."""

    def __init__(self, console: Console) -> None:
        self._file = console.file
        self._width = console.width
        self._column = 0
        self._word = ""

    def write(self, piece: str) -> None:
        """Print all words of the piece but the last, which may go on."""
        for character in piece:
            if character.isspace():
                self._print_word()
                self._space(character)
            else:
                self._word += character
        self._file.flush()

    def end(self) -> None:
        self._print_word()
        self._file.write("\n")
        self._file.flush()

    def _space(self, character: str) -> None:
        self._file.write(character)
        self._column = 0 if character == "\n" else self._column + 1

    def _print_word(self) -> None:
        if self._column and self._column + len(self._word) > self._width:
            self._space("\n")
        self._file.write(self._word)
        self._column += len(self._word)
        self._word = ""
