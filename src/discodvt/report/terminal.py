"""Stories in the terminal: with their EDUs and relations, with each code beside the text it governs, or plain.

A story is shown whole, or while it is written.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from discodvt.discourse import CATEGORIES, LABELS, Annotation, category_of, marker_of
from discodvt.report.colors import CATEGORY_COLORS, INK_ON_TINT, NO_RELATION, tint
from discodvt.report.escaping import printable
from discodvt.writing.story import Story

RELATION_COLUMNS = max(map(len, LABELS))
NARROWEST = 10  # columns of text, on however narrow a terminal
HEADING = 300  # characters of a prompt above its story
Segments = Sequence[tuple[int, int, int]]  # code, start, end
PlanRow = tuple[int | None, str]  # code, text


class NumberedEdu(NamedTuple):
    """An EDU of a text: its number from 0, its characters, the relation to the EDU before, the connectives in it."""

    number: int
    start: int
    end: int
    relation: str | None  # None for the first
    markers: list[tuple[int, int, str]]  # start, end, marker


def numbered_edus(annotation: Annotation) -> Iterator[NumberedEdu]:
    """The EDUs of an annotation in order; its mentions are read once."""
    starts = [start for start, _ in annotation.edus]
    markers: list[list[tuple[int, int, str]]] = [[] for _ in starts]
    for mention in annotation.mentions:
        markers[bisect_right(starts, mention.start) - 1].append((mention.start, mention.end, mention.marker))
    for number, (start, end) in enumerate(annotation.edus):
        yield NumberedEdu(number, start, end, annotation.relations[number - 1] if number else None, markers[number])


class AnnotationView:
    """EDUs line by line; beside each the relation to the one before, in the color of its category.

    Made row by row: a table would measure them all first, slow for a book.
    """

    def __init__(self, text: str, annotation: Annotation) -> None:
        self.text = text
        self.annotation = annotation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _legend()
        yield Text()
        yield from self._rows(console, options.max_width)
        yield Text()
        yield from Text(self._summary(), style="dim").wrap(console, options.max_width)

    def _rows(self, console: Console, width: int) -> Iterator[Text]:
        digits = len(str(len(self.annotation.edus)))
        room = max(width - digits - RELATION_COLUMNS - 2, NARROWEST)
        for edu in numbered_edus(self.annotation):
            piece = self.text[edu.start : edu.end]
            color = _relation_color(edu.relation)
            name = edu.relation if edu.relation and marker_of(edu.relation) else None
            # Pictures for control characters: a terminal must not obey them. Every character keeps its place.
            body = Text(printable(piece.strip().replace("\r\n", " \n")), style=color if name else "")
            lead = edu.start + len(piece) - len(piece.lstrip())
            for begin, finish, marker in edu.markers:
                body.stylize(f"bold underline {_relation_color(marker)}", begin - lead, finish - lead)
            head = Text.assemble(
                (f"{edu.number + 1:>{digits}} ", "dim"), (f"{name or '·':<{RELATION_COLUMNS}} ", color)
            )
            for line in body.wrap(console, room):
                yield head + line
                head = Text(" " * len(head))

    def _summary(self) -> str:
        count, total = len(self.annotation.edus), len(self.annotation.relations)
        known = sum(marker_of(label) is not None for label in self.annotation.relations)
        return f"{count} {'EDU' if count == 1 else 'EDUs'}, {known} of {total} neighbours linked by a marker"


def _legend() -> Columns:
    """The categories with their markers, side by side as far as the width allows."""
    keys = (
        Text.assemble(("■ ", CATEGORY_COLORS[category]), (f"{category} ", "bold"), f"({', '.join(markers)})")
        for category, markers in CATEGORIES.items()
    )
    return Columns(keys, padding=(0, 3))


def _relation_color(label: str | None) -> str:
    category = category_of(label) if label else None
    return CATEGORY_COLORS[category] if category else NO_RELATION


def heading(prompt: str) -> Text:
    """The prompt above its story; of a very long one the beginning."""
    start = prompt[:HEADING].rsplit(maxsplit=1)[0] + " ..." if len(prompt) > HEADING else prompt
    return Text(printable(start), style="bold")


class PlanView:
    """The story as running text, each code before the words it governs; `[12] text` where the console has no colors."""

    def __init__(self, record: Story) -> None:
        self.record = record

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield heading(self.record.prompt)
        yield Text()
        lines = PlanLines(console, options.max_width)
        yield from lines.add(plan_rows(self.record.text, self.record.segments))
        yield from lines.rest()
        yield from _ending(self.record)


class LivePlan:
    """The same while the story is written: a line is printed as soon as nothing that follows can change it."""

    def __init__(self, console: Console, prompt: str) -> None:
        self._console = console
        self._lines = PlanLines(console, console.width)
        self._added = 0  # rows
        console.print(heading(prompt), end="\n\n")

    def grow(self, text: str, segments: Segments) -> None:
        """Text so far: its last segment grows, and decides where the row before it ends."""
        self._print(list(plan_rows(text, segments))[:-2])

    def end(self, record: Story) -> None:
        self._print(list(plan_rows(record.text, record.segments)))
        for line in (*self._lines.rest(), *_ending(record)):
            self._console.print(line)

    def _print(self, rows: Sequence[PlanRow]) -> None:
        for line in self._lines.add(rows[self._added :]):
            self._console.print(line)
        self._added = max(self._added, len(rows))


def plan_rows(story: str, segments: Segments) -> Iterator[PlanRow]:
    """Each code with the words that begin under it; None for text beyond the plan.

    A code may end inside a word, or before a comma: for reading, that word stays whole in the row it begins in.
    """
    at = 0
    for (code, _, end), (_, _, limit) in pairwise((*segments, *segments[-1:])):
        whole = end
        while 0 < whole < limit and not (story[whole].isspace() or story[whole - 1].isspace()):
            whole += 1
        end = end if whole == limit else whole  # never all the text of the next code
        yield code if code >= 0 else None, story[at:end]
        at = end


class PlanLines:
    """Rows of a plan set as lines that fit a width, broken between words; a number stays with the word it precedes."""

    def __init__(self, console: Console, width: int) -> None:
        self._colored = console.color_system is not None and not console.no_color
        self._width = width
        self._line = Text()

    def add(self, rows: Iterable[PlanRow]) -> Iterator[Text]:
        """The lines that are full."""
        for code, piece in rows:
            label = "" if code is None else str(code)
            for number, paragraph in enumerate(printable(piece).split("\n")):
                if number:
                    yield from self._broken()
                for word in paragraph.split() or ([""] if label and not number else []):
                    for part in chop_cells(word, max(NARROWEST, self._width - len(label) - 3)) or [""]:
                        yield from self._put(code, label, part)
                        label = ""

    def rest(self) -> Iterator[Text]:
        """The line that is not full."""
        if self._line:
            yield from self._broken()

    def _put(self, code: int | None, label: str, word: str) -> Iterator[Text]:
        """A word, after its code where it is the first of it."""
        number = f" {label} " if self._colored else f"[{label}]"
        parts = [number, word] if label and word else [number] if label else [word]
        if self._line and self._line.cell_len + 1 + cell_len(" ".join(parts)) > self._width:
            yield from self._broken()
        tinted = f"{INK_ON_TINT} on {tint(code)}" if self._colored and code is not None else ""
        if self._line:
            self._line.append(" ", "" if label else tinted)
        if label:
            self._line.append(number, f"bold {INK_ON_TINT} on {tint(code or 0, lightness=0.7)}" if tinted else "")
        if word:
            self._line.append(f" {word}" if label else word, tinted)

    def _broken(self) -> Iterator[Text]:
        line, self._line = self._line, Text()
        yield line


def _ending(record: Story) -> Iterator[Text]:
    """What follows the rows; a story written without a plan has none, and comes here."""
    if not record.segments:
        yield Text(printable(record.text))
    yield Text()
    yield Text(summary(record), style="dim")


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
