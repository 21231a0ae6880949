"""Books cut into contiguous segments with an empty prompt: what the warm start is trained on.

A book is a `.txt` file, or a row of a `.jsonl` file (column `story` unless another is named), packed or not. A segment
has at least so many words, or subwords of a tokenizer, and ends with a word; no segment crosses a book, and what is
left at the end of one and too short is not used. All segments of a book go to one split. With a `tail` books
are cut into overlapping windows instead (`discodvt.corpus.book_windows`), with their titles as prompts.
"""

import re
from collections.abc import Collection, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discodvt.corpus.book_windows import DEFAULT_TITLE, TailIn, WindowCutter
from discodvt.corpus.formats import CODECS, read_jsonl, read_lines, text_of, too_long
from discodvt.corpus.sources import SourcePart, SourceRow
from discodvt.corpus.tabular import Columns
from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SUFFIXES = tuple(kind + packed for kind in (".txt", ".jsonl") for packed in ("", *CODECS))
DEFAULT_WORDS = 400
DEFAULT_SUBWORDS = 512
CHARACTERS_AT_ONCE = 1 << 16
CHARACTERS_PER_SUBWORD = 6  # a first guess that is mostly enough: English has 4 to 5
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Books:
    """A file or a directory tree of them; `tokenizer` is a directory or a model of the Hub, None counts words."""

    path: Path
    segment_length: int | None = None
    tokenizer: Path | None = None
    story_column: str = "story"
    tail: int | None = None
    tail_in: TailIn = "story"
    title_column: str = DEFAULT_TITLE
    kind = "books"

    @property
    def length(self) -> int:
        return self.segment_length or (DEFAULT_SUBWORDS if self.tokenizer else DEFAULT_WORDS)

    def settings(self) -> dict[str, Any]:
        unit = "subwords" if self.tokenizer else "words"
        settings: dict[str, Any] = {"segment_length": self.length, "unit": unit, "column": self.story_column}
        windows = {"tail": self.tail, "tail_in": self.tail_in, "title_column": self.title_column}
        return settings | (windows if self.tail is not None else {})

    def files(self) -> list[Path]:
        return self._books() + (tokenizer_files(self.tokenizer) if self.tokenizer else [])

    def parts(self) -> list[SourcePart]:
        tokenizer = load_tokenizer(self.tokenizer) if self.tokenizer else None
        if self.tail is not None:
            read = partial(self._read_windows, cutter=WindowCutter(self.length, self.tail, self.tail_in, tokenizer))
        else:
            read = partial(self._read, segmenter=Segmenter(self.length, tokenizer))
        return [
            SourcePart(label=self._label(path), split=None, size=path.stat().st_size, read=partial(read, path))
            for path in self._books()
        ]

    def _books(self) -> list[Path]:
        if not self.path.exists():
            raise BadRequest(f"{self.path}: no such file or directory; check the path")
        if self.path.is_file():
            found = [self.path]
        else:
            found = sorted(path for path in self.path.rglob("*") if path.is_file() and path.name.endswith(SUFFIXES))
        if not found or not found[0].name.endswith(SUFFIXES):
            raise BadRequest(f"{self.path}: no .txt or .jsonl (.gz, .zst) book; give a file or directory of these")
        labels: dict[str, Path] = {}
        for path in found:
            if (other := labels.setdefault(self._label(path), path)) != path:
                raise BadRequest(f"{path}: {other.name} stands beside it; keep one of the two")
        return found

    def _label(self, path: Path) -> str:
        """The name of a file as ids begin with it: its path in the directory, without suffixes."""
        name = path.name if path == self.path else path.relative_to(self.path).as_posix()
        return name.removesuffix(next(suffix for suffix in reversed(SUFFIXES) if name.endswith(suffix)))

    def _read_windows(self, path: Path, max_story_mb: int, *, cutter: WindowCutter) -> Iterator[SourceRow]:
        """The windows of a file, a book in memory at a time."""
        for book, title, text, place, position in self._whole_books(path, max_story_mb):
            for number, window in enumerate(cutter.windows(text), start=1):
                prompt, story = window.pair(title, self.tail_in)
                yield SourceRow(prompt, story, place=place, position=position, id=f"{book}-{number}", group=book)

    def _whole_books(self, path: Path, max_story_mb: int) -> Iterator[tuple[str, str, str, str, int]]:
        """Books with their names, titles, places and positions; one without a column has the title of its file."""
        label = self._label(path)
        if ".jsonl" in path.suffixes[-2:]:
            columns = (self.title_column, self.story_column)

            def check(present: Collection[str], place: str) -> list[str]:
                for parameter, name in zip(("title_column", "story_column"), columns, strict=True):
                    if name not in present:
                        said = f"{place}: no column `{name}`; it has {', '.join(present)}; name one with `{parameter}`"
                        raise BadRequest(said, parameter=parameter)
                return list(columns)

            for number, record in enumerate(read_jsonl(path, check, max_story_mb=max_story_mb), start=1):
                title, text = (text_of(record, column) for column in columns)
                yield f"{label}-{number}", title.strip(), text, record.place, record.position
            return
        lines, size, position = [], 0, 0
        for line in read_lines(path, max_story_mb=max_story_mb):
            lines.append(line.content)
            size, position = size + len(line.content) + 1, line.position
            if size > max_story_mb << 20:
                raise too_long(f"{path}:{line.number}", "a book", max_story_mb)
        yield label, label.rpartition("/")[2].replace("_", " "), "\n".join(lines), str(path), position

    def _read(self, path: Path, max_story_mb: int, *, segmenter: "Segmenter") -> Iterator[SourceRow]:
        label = self._label(path)
        if ".jsonl" in path.suffixes[-2:]:
            columns = Columns(self.story_column, id_column="", prompt_from="first-sentence")
            for number, record in enumerate(read_jsonl(path, columns.needed, max_story_mb=max_story_mb), start=1):
                book = [(text_of(record, self.story_column), record.place, record.position)]
                yield from _rows(segmenter, book, f"{label}-{number}", max_story_mb)
        else:
            lines = read_lines(path, max_story_mb=max_story_mb)
            pieces = ((line.content + "\n", f"{path}:{line.number}", line.position) for line in lines)
            yield from _rows(segmenter, pieces, label, max_story_mb)


def _rows(
    segmenter: "Segmenter", pieces: Iterable[tuple[str, str, int]], book: str, max_story_mb: int
) -> Iterator[SourceRow]:
    """The segments of one book; a piece is a text with its place and position."""
    place, position, waiting = "", 0, 0

    def texts() -> Iterator[str]:
        nonlocal place, position, waiting
        for text, place, position in pieces:  # noqa: B007 - the last ones are those of the segment
            waiting += len(text)
            if waiting > max_story_mb << 20:
                raise too_long(place, "a segment", max_story_mb)
            yield text

    for number, segment in enumerate(segmenter.segments(texts()), start=1):
        waiting = 0
        yield SourceRow(prompt="", story=segment, place=place, position=position, id=f"{book}-{number}", group=book)


class Segmenter:
    """Cuts text into segments of at least `length` subwords of `tokenizer`, or words without one."""

    def __init__(self, length: int, tokenizer: "Tokenizer | None" = None) -> None:
        if length < 1:
            raise BadRequest(f"`segment_length` {length}: expected at least 1", parameter="segment_length")
        self.length = length
        self._find_end = partial(self._end_by_subwords, tokenizer) if tokenizer else self._end_by_words

    def segments(self, pieces: Iterable[str]) -> Iterator[str]:
        """The segments of the text the pieces make together, without outer whitespace."""
        waiting: list[str] = []
        size = 0
        for piece in pieces:
            waiting.append(piece)
            size += len(piece)
            if size >= CHARACTERS_AT_ONCE:
                rest = yield from self._cut("".join(waiting))
                waiting, size = [rest], 0  # counts new text only, so that a long segment is not looked for in vain
        yield from self._cut("".join(waiting))

    def _cut(self, text: str) -> Generator[str, None, str]:
        """Yield the segments of a text; return what is left of it."""
        start = 0
        while (end := self._find_end(text, start)) is not None:
            yield text[start:end].strip()
            start = end
        return text[start:]

    def _end_by_words(self, text: str, start: int) -> int | None:
        for count, word in enumerate(_WORD.finditer(text, start), start=1):
            if count == self.length:
                return word.end()
        return None

    def _end_by_subwords(self, tokenizer: "Tokenizer", text: str, start: int) -> int | None:
        """Encode a window, widened until it holds the last subword's word whole; a space before, as in training."""
        word = _WORD.search(text, start)
        first = word.start() if word else len(text)
        width = self.length * CHARACTERS_PER_SUBWORD
        while first < len(text):
            window = text[first : first + width]
            offsets = tokenizer.encode(" " + window, add_special_tokens=False).offsets
            if len(offsets) >= self.length:
                end = _end_of_word(text, first + offsets[self.length - 1][1] - 1)
                if end is not None and end <= first + width:
                    return end
            if first + width >= len(text):
                return None
            width *= 2
        return None


def tokenizer_files(directory: Path) -> list[Path]:
    """The files a tokenizer is loaded from: `tokenizer.json`, or `vocab.json` and `merges.txt`."""
    if not directory.exists():
        from discodvt.stored_files import downloaded  # brings the tokenizers library

        directory = downloaded(str(directory), files=("tokenizer.json", "vocab.json", "merges.txt"))
    for names in (("tokenizer.json",), ("vocab.json", "merges.txt")):
        paths = [directory / name for name in names]
        if all(path.is_file() for path in paths):
            return paths
    raise BadRequest(
        f"{directory}: no tokenizer; expected tokenizer.json, or vocab.json with merges.txt, in a directory"
    )


def load_tokenizer(directory: Path) -> "Tokenizer":
    """A fast tokenizer from its files; `vocab.json` with `merges.txt` is byte-level BPE, as BART's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    files = [str(path) for path in tokenizer_files(directory)]
    try:
        if len(files) == 1:
            return Tokenizer.from_file(files[0])
        tokenizer = Tokenizer(models.BPE.from_file(*files))
    except Exception as error:  # the library raises bare exceptions
        raise BadRequest(f"{directory}: the tokenizer cannot be read ({error}); download it again") from None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _end_of_word(text: str, position: int) -> int | None:
    """The end of the word at a position, or of the next one where whitespace is there."""
    inside = bool(text[max(0, position - 1) : position].strip())
    found = _WORD.match(text, position) if inside else _WORD.search(text, position)
    return found.end() if found else position if inside else None
