"""The paper's corpora as they are distributed, packed or not.

Wikiplots: `titles`, one per line, and `plots`, one sentence per line with `<EOS>` after each plot. The prompt is the
title, the story the sentences joined by a space. No split is given with it.

WritingPrompts: `{train,valid,test}.wp_source` and `.wp_target`, line n of one the prompt of line n of the other.
Accents are stripped and `<newline>` markers dropped, as in the paper's code. Tags such as `[ WP ]` stay in the prompt
unless they are asked away.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from discodvt.corpus.formats import Line, find_file, read_lines, too_long
from discodvt.corpus.records import SPLITS
from discodvt.corpus.sources import SourcePart, SourceRow
from discodvt.errors import BadRequest

END_OF_PLOT = "<EOS>"
_NEWLINE_MARKER = re.compile(r"\s?(?:<newlines?>\s*)+", re.IGNORECASE)
_LEADING_TAGS = re.compile(r"^(?:\s*\[\s*\w{1,12}\s*\])+\s*")


@dataclass(frozen=True, slots=True)
class Wikiplots:
    """The directory with the files `titles` and `plots`, either of them packed or not."""

    directory: Path
    kind = "wikiplots"

    def settings(self) -> dict[str, Any]:
        return {}

    def files(self) -> list[Path]:
        found = [path for name in ("titles", "plots") if (path := find_file(self.directory, name))]
        if len(found) < 2:
            raise BadRequest(
                f"{self.directory}: expected the files `titles` and `plots`; give the directory that has them"
            )
        return found

    def parts(self) -> list[SourcePart]:
        titles, plots = self.files()
        return [
            SourcePart(
                label="wikiplots", split=None, size=plots.stat().st_size, read=partial(_read_plots, titles, plots)
            )
        ]


def _read_plots(titles: Path, plots: Path, max_story_mb: int) -> Iterator[SourceRow]:
    heads = read_lines(titles, max_story_mb=max_story_mb)
    plot_count = 0
    for plot_count, (story, line) in enumerate(_plots(plots, max_story_mb), start=1):
        title = next(heads, None)
        if title is None:
            raise _mismatch(titles, plot_count - 1, plots, sum(1 for _ in _plots(plots, max_story_mb)))
        yield SourceRow(
            prompt=title.content.strip(), story=story, place=f"{plots}:{line.number}", position=line.position
        )
    extra = sum(1 for title in heads if title.content.strip())
    if extra:
        raise _mismatch(titles, plot_count + extra, plots, plot_count)


def _plots(path: Path, max_story_mb: int) -> Iterator[tuple[str, Line]]:
    """Each plot and the line it ends on; the last may do without its `<EOS>`."""
    sentences: list[str] = []
    size = 0
    line = None
    for line in read_lines(path, max_story_mb=max_story_mb):
        sentence = line.content.strip()
        if sentence == END_OF_PLOT:
            yield " ".join(sentences), line
            sentences, size = [], 0
        elif sentence:
            sentences.append(sentence)
            size += len(sentence)
            if size > max_story_mb << 20:
                raise too_long(f"{path}:{line.number}", "a plot", max_story_mb)
    if sentences and line:
        yield " ".join(sentences), line


def _mismatch(titles: Path, title_count: int, plots: Path, plot_count: int) -> BadRequest:
    return BadRequest(
        f"{titles}: {title_count} titles, but {plots} has {plot_count} plots; "
        f"each title needs one plot that ends with {END_OF_PLOT}"
    )


@dataclass(frozen=True, slots=True)
class WritingPrompts:
    """The directory with the six files (those it has), packed or not."""

    directory: Path
    strip_tags: bool = False
    kind = "writingprompts"

    def settings(self) -> dict[str, Any]:
        return {"strip_tags": self.strip_tags}

    def files(self) -> list[Path]:
        return [path for pair in self._pairs().values() for path in pair]

    def parts(self) -> list[SourcePart]:
        return [
            SourcePart(label=split, split=split, size=target.stat().st_size, read=partial(self._read, source, target))
            for split, (source, target) in self._pairs().items()
        ]

    def _pairs(self) -> dict[str, tuple[Path, Path]]:
        pairs = {}
        for split in SPLITS:
            source, target = (find_file(self.directory, f"{split}.wp_{side}") for side in ("source", "target"))
            if source and target:
                pairs[split] = (source, target)
            elif source or target:
                missing = "target" if source else "source"
                raise BadRequest(f"{self.directory}: no {split}.wp_{missing}; put it beside {(source or target)}")
        if not pairs:
            raise BadRequest(
                f"{self.directory}: expected train.wp_source and train.wp_target (valid, test likewise); "
                "give the directory that has them"
            )
        return pairs

    def _read(self, source: Path, target: Path, max_story_mb: int) -> Iterator[SourceRow]:
        prompts, stories = (read_lines(path, max_story_mb=max_story_mb) for path in (source, target))
        for prompt, story in zip_longest(prompts, stories):
            if prompt is None or story is None:
                longer, number = (target, story.number) if prompt is None else (source, prompt.number)
                total = number + sum(1 for _ in (stories if prompt is None else prompts))
                shorter = source if prompt is None else target
                raise BadRequest(
                    f"{shorter}: {number - 1} lines, but {longer} has {total}; each prompt needs its story"
                )
            text = _clean(prompt.content)
            yield SourceRow(
                prompt=strip_tags(text) if self.strip_tags else text,
                story=_clean(story.content),
                place=f"{target}:{story.number}",
                position=story.position,
            )


def _clean(text: str) -> str:
    return drop_newline_markers(strip_accents(text))


def strip_accents(text: str) -> str:
    """Letters without their accents, as the paper's code has WritingPrompts (NFD, combining marks dropped)."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def drop_newline_markers(text: str) -> str:
    """WritingPrompts writes line ends inside a story as `<newline>`; they become one space."""
    return _NEWLINE_MARKER.sub(" ", text).strip()


def strip_tags(prompt: str) -> str:
    """A WritingPrompts prompt without the tags it begins with, such as `[ WP ]`."""
    return _LEADING_TAGS.sub("", prompt)
