"""A story in the terminal, whole or while it is written: each code beside the text it governs, or plain text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from discodvt.report.code_colours import INK, tint
from discodvt.writing.story import Story

Segments = Sequence[tuple[int, int, int]]  # code, start, end
Row = tuple[int | None, str]  # code, text
HEADING = 300  # characters
_SHOWN = {
    **{control: 0x2400 + control for control in range(32) if chr(control) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
}


def printable(text: str) -> str:
    """Text a terminal shows and never obeys: a control character becomes its picture (␛), every place stays."""
    return text.translate(_SHOWN)


def heading(prompt: str) -> Text:
    """The prompt above its story; of a very long one the beginning."""
    start = prompt[:HEADING].rsplit(maxsplit=1)[0] + " ..." if len(prompt) > HEADING else prompt
    return Text(printable(start), style="bold")


class PlanView:
    """The story row by row, each code beside its text; `[ 12] text` where the console has no colours."""

    def __init__(self, record: Story) -> None:
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield heading(self.record.prompt)
        yield Text()
        yield from _lines(plan_rows(self.record.text, self.record.segments), console, options.max_width)
        yield from _ending(self.record)


class LivePlan:
    """The same while the story is written: a row is printed as soon as nothing that follows can change it."""

    def __init__(self, console: Console, prompt: str) -> None:
        self._console = console
        self._printed = 0  # rows
        console.print(heading(prompt), end="\n\n")

    def grow(self, text: str, segments: Segments) -> None:
        """Text so far: its last segment grows, and decides where the row before it ends."""
        self._print_rows(list(plan_rows(text, segments))[:-2])

    def end(self, record: Story) -> None:
        self._print_rows(list(plan_rows(record.text, record.segments)))
        for line in _ending(record):
            self._console.print(line)

    def _print_rows(self, rows: Sequence[Row]) -> None:
        for line in _lines(rows[self._printed :], self._console, self._console.width):
            self._console.print(line)
        self._printed = max(self._printed, len(rows))


def plan_rows(story: str, segments: Segments) -> Iterator[Row]:
    """Each code with the words that begin under it; None for text beyond the plan.

    A code may end inside a word, or before a comma: for reading, that word stays whole in the row it begins in.
    """
    at = 0
    for (code, _, end), (_, _, limit) in pairwise((*segments, *segments[-1:])):
        whole = end
        while 0 < whole < limit and not (story[whole].isspace() or story[whole - 1].isspace()):
            whole += 1
        end = end if whole == limit else whole  # never all the text of the next code
        yield code if code >= 0 else None, story[at:end].strip()
        at = end


def _lines(rows: Iterable[Row], console: Console, width: int) -> Iterator[Text]:
    """Rows as lines that fit the width, each code beside its first."""
    coloured = console.color_system is not None and not console.no_color
    for code, piece in rows:
        for number, line in enumerate(Text(printable(piece)).wrap(console, width - 2 - len(_label(code)))):
            label = _label(code if number == 0 else None)
            yield _coloured(code, label, line.plain) if coloured else Text(f"{label} {line.plain}".rstrip())


def _ending(record: Story) -> Iterator[Text]:
    """What follows the rows; a story written without a plan has none, and comes here."""
    if not record.segments:
        yield Text(printable(record.text))
    yield Text()
    yield Text(summary(record), style="dim")


def _label(code: int | None) -> str:
    return "     " if code is None else f"[{code:>3}]"


def _coloured(code: int | None, label: str, text: str) -> Text:
    if code is None or not (text or label.strip()):
        return Text(f"{label} {text}")
    number = label.translate({ord("["): " ", ord("]"): " "})
    return Text.assemble(
        (number, f"bold {INK} on {tint(code, lightness=0.7)}"), (f" {text} ", f"{INK} on {tint(code)}")
    )


def summary(record: Story) -> str:
    """One line: how much of the plan was used, how long the story is, how it ended, which seed."""
    reached = sum(code >= 0 for code, _, _ in record.segments)
    codes = f"{len(record.plan)} codes" + (f", {reached} reached" if reached < len(record.plan) else "")
    ended = "ended by itself" if record.finish == "end" else "cut at the length limit"
    words = f"{len(record.text.split())} words"
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
        for character in printable(piece):
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
