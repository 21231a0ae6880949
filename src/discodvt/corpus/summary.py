"""What preparing a corpus did: how many stories of what length went where, what was dropped and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from discodvt.corpus.records import SPLITS

# Why a row is not in the corpus; the words are those of the summary and of the manifest.
EMPTY = "empty story"
DUPLICATE = "duplicate story"
TOO_SHORT = "under min words"
TOO_LONG = "over max words"


@dataclass(slots=True)
class Lengths:
    """Stories counted, with the words of their prompts and of themselves."""

    stories: int = 0
    input_words: int = 0
    output_words: int = 0

    def add(self, other: "Lengths") -> None:
        self.stories += other.stories
        self.input_words += other.input_words
        self.output_words += other.output_words

    def facts(self) -> dict[str, Any]:
        return {
            "stories": self.stories,
            "input_words": round(self.input_words / max(1, self.stories), 2),
            "output_words": round(self.output_words / max(1, self.stories), 2),
        }


@dataclass(slots=True)
class Tally:
    """Counts kept while the rows pass."""

    read: int = 0
    cut: int = 0
    mended: int = 0
    shared_prompts: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    splits: dict[str, Lengths] = field(default_factory=lambda: {split: Lengths() for split in SPLITS})

    @property
    def kept(self) -> int:
        return sum(lengths.stories for lengths in self.splits.values())

    def facts(self) -> dict[str, Any]:
        """The tally as the manifest has it; lengths are mean words, as in the paper's data table."""
        total = Lengths()
        for lengths in self.splits.values():
            total.add(lengths)
        return {
            "read": self.read,
            "kept": self.kept,
            "cut_to_max_words": self.cut,
            "lone_surrogates_replaced": self.mended,
            "held_out_prompts_in_train": self.shared_prompts,
            "dropped": dict(sorted(self.dropped.items())),
            "splits": {split: lengths.facts() for split, lengths in self.splits.items()},
            "all": total.facts(),
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of `prepare`: the facts of the manifest, and whether they were there already."""

    facts: dict[str, Any]
    already_complete: bool = False
