"""WritingPrompts: `{train,valid,test}.wp_source` and `.wp_target`, line n of one the prompt of line n of the other.

Accents are stripped and `<newline>` markers dropped, as in the paper's code. Tags such as `[ WP ]` stay in the prompt
unless they are asked away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from discodvt.corpus.cleaning import drop_newline_markers, strip_accents, strip_tags
from discodvt.corpus.records import SPLITS
from discodvt.corpus.sources import Part, Row
from discodvt.corpus.textfiles import find_file, read_lines
from discodvt.errors import BadRequest


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

    def parts(self) -> list[Part]:
        return [
            Part(label=split, split=split, size=target.stat().st_size, read=partial(self._read, source, target))
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

    def _read(self, source: Path, target: Path) -> Iterator[Row]:
        prompts, stories = read_lines(source), read_lines(target)
        for prompt, story in zip_longest(prompts, stories):
            if prompt is None or story is None:
                longer, number = (target, story.number) if prompt is None else (source, prompt.number)
                total = number + sum(1 for _ in (stories if prompt is None else prompts))
                shorter = source if prompt is None else target
                raise BadRequest(
                    f"{shorter}: {number - 1} lines, but {longer} has {total}; each prompt needs its story"
                )
            text = _clean(prompt.content)
            yield Row(
                prompt=strip_tags(text) if self.strip_tags else text,
                story=_clean(story.content),
                place=f"{target}:{story.number}",
                position=story.position,
            )


def _clean(text: str) -> str:
    return drop_newline_markers(strip_accents(text))
