"""The prepare stage: a source in, a corpus directory out (`train.parquet`, `valid.parquet`, `test.parquet`).

One reading, row by row: clean, drop what is empty, too short, too long or a duplicate, choose the split, write. Splits
the source gives are kept and read test first, then valid, then train, so that of a duplicate the held-out one stays;
without them (or when shares are asked for) a split is drawn for each prompt. A run that was killed starts again.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from discodvt.artefacts import StageDirectory, StageFacts, open_stage
from discodvt.corpus.formats import MAX_STORY_MB, too_long
from discodvt.corpus.records import CORPUS_SCHEMA, SPLITS, Example, RowWriter
from discodvt.corpus.sentences import cut_to_words
from discodvt.corpus.sources import Source, SourcePart, SourceRow
from discodvt.corpus.splits import DEFAULT_SHARES, READING_ORDER, Seen, draw_split, normalise, parse_shares
from discodvt.errors import BadRequest

STAGE = "prepare"
ROWS_PER_REPORT = 256

Progress = Callable[[int, int, int], None]  # bytes read, bytes in all (0: not known), stories kept

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Options:
    """What may be asked of any source. `split` None: the splits the source gives, else 90/5/5."""

    split: str | None = None
    seed: int = 42
    deduplicate: bool = True
    min_words: int | None = None
    max_words: int | None = None
    cut: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        parse_shares(self.split or DEFAULT_SHARES)
        for name in ("min_words", "max_words", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise BadRequest(f"`{name}` {value}: expected at least 1", parameter=name)
        if self.min_words and self.max_words and self.min_words > self.max_words:
            raise BadRequest(
                f"`min_words` {self.min_words}: more than `max_words` {self.max_words}; swap them",
                parameter=("min_words", "max_words"),
            )
        if self.cut and not self.max_words:
            raise BadRequest("`cut`: nothing to cut to; give `max_words`", parameter=("cut", "max_words"))


# Why a row is not in the corpus; the words are those of the summary and of the manifest.
EMPTY = "empty story"
DUPLICATE = "duplicate story"
TOO_SHORT = "under min words"
TOO_LONG = "over max words"


@dataclass(slots=True)
class PrepareCounts:
    """Counts kept while the rows pass; of each split `stories`, `input_words` (of prompts) and `output_words`."""

    read: int = 0
    cut: int = 0
    surrogates: int = 0
    shared_prompts: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    splits: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})

    @property
    def kept(self) -> int:
        return sum(counts["stories"] for counts in self.splits.values())

    def facts(self) -> dict[str, Any]:
        """The tally as the manifest has it; lengths are mean words, as in the paper's data table."""
        counts = self.splits | {"all": sum(self.splits.values(), Counter())}
        means = {
            split: {"stories": each["stories"]}
            | {words: round(each[words] / max(1, each["stories"]), 2) for words in ("input_words", "output_words")}
            for split, each in counts.items()
        }
        return {
            "read": self.read,
            "kept": self.kept,
            "cut_to_max_words": self.cut,
            "lone_surrogates_replaced": self.surrogates,
            "held_out_prompts_in_train": self.shared_prompts,
            "dropped": dict(sorted(self.dropped.items())),
            "splits": {split: means[split] for split in SPLITS},
            "all": means["all"],
        }


def prepare(
    source: Source,
    out: Path,
    options: Options | None = None,
    *,
    max_story_mb: int = MAX_STORY_MB,
    overwrite: bool = False,
    on_progress: Progress | None = None,
) -> StageFacts:
    """Make a corpus directory of a source; a directory that holds this very corpus is left as it is.

    A line or story of more than `max_story_mb` megabytes is an error: memory stays bounded whatever the source holds.
    """
    if max_story_mb < 1:
        raise BadRequest(f"`max_story_mb` {max_story_mb}: expected at least 1", parameter="max_story_mb")
    options = options or Options()
    config = {"source": source.kind, **source.settings(), **asdict(options)}
    with open_stage(out, STAGE, config=config, inputs=list(source.files()), overwrite=overwrite) as stage:
        if stage.complete:
            return StageFacts(stage.facts, already_complete=True)
        with stage.abandoned_if_wrong():
            tally = _Preparation(source, options, max_story_mb, on_progress).write(stage)
        stage.finish(**tally.facts())
        return StageFacts(tally.facts())


class _Preparation:
    """One run over a source."""

    def __init__(self, source: Source, options: Options, max_story_mb: int, on_progress: Progress | None) -> None:
        parts = source.parts()
        given = options.split is None and all(part.split for part in parts)
        self.parts = sorted(
            [part if given else replace(part, split=None) for part in parts],
            key=lambda part: READING_ORDER.index(part.split) if part.split else 0,
        )
        self.options = options
        self.max_story_mb = max_story_mb
        self.shares = parse_shares(options.split or DEFAULT_SHARES)
        self.on_progress = on_progress
        self.tally = PrepareCounts()
        self.seen_stories = Seen()
        self.held_out_prompts = Seen()
        self.seen_ids: dict[str | None, Seen] = {}  # by given split: many sources number each split from 0

    def write(self, stage: StageDirectory) -> PrepareCounts:
        """Write the corpus files of the splits that have stories."""
        writers: dict[str, RowWriter] = {}
        with ExitStack() as stack:
            for split, story in self._stories():
                if split not in writers:
                    path = stack.enter_context(stage.writing(f"{split}.parquet"))
                    writers[split] = stack.enter_context(RowWriter(path, CORPUS_SCHEMA))
                writers[split].write(asdict(story))
            if not writers:
                if not self.tally.read:
                    raise BadRequest("no story was read; check the source, and options that cut it into stories")
                reasons = ", ".join(f"{count} {reason}" for reason, count in self.tally.dropped.items())
                raise BadRequest(f"no story is left of {self.tally.read} read ({reasons}); loosen the options")
        return self.tally

    def _stories(self) -> Iterator[tuple[str, Example]]:
        for part, row, number in self._rows():
            self.tally.read += 1
            kept = self._clean(row)
            if kept is None:
                continue
            story_id = replace_surrogates(f"{part.label}-{number}" if row.id is None else row.id)
            if row.id is not None and not self.seen_ids.setdefault(part.split, Seen()).add(story_id):
                raise BadRequest(
                    f"{row.place}: the id `{story_id}` was there before; make ids unique, choose another `id_column`, "
                    "or number the rows with `id_column` ''",
                    parameter="id_column",
                )
            key = row.group or kept.prompt or story_id
            split = part.split or draw_split(key, seed=self.options.seed, shares=self.shares)
            words = {"input_words": len(kept.prompt.split()), "output_words": len(kept.story.split())}
            self.tally.splits[split].update(words, stories=1)
            if part.split and kept.prompt:
                self._compare_prompt(normalise(kept.prompt), split)
            yield split, Example(id=story_id, prompt=kept.prompt, story=kept.story)

    def _rows(self) -> Iterator[tuple[SourcePart, SourceRow, int]]:
        """Every row to be read, with its number among those of its label."""
        numbers: Counter[str] = Counter()
        total = sum(part.size for part in self.parts)
        done = 0
        for part in self.parts:
            numbered = None
            for row in part.read(self.max_story_mb):
                if self._enough(part.split):
                    break
                if len(row.story) > self.max_story_mb << 20:
                    raise too_long(row.place, "a story", self.max_story_mb)
                if numbered not in (None, row.id is None):
                    raise BadRequest(
                        f"{row.place}: some rows have an id, some none; fill them in, or set `id_column` to ''",
                        parameter="id_column",
                    )
                numbered = row.id is None
                numbers[part.label] += 1
                yield part, row, numbers[part.label]
                if self.on_progress and self.tally.read % ROWS_PER_REPORT == 0:
                    self.on_progress(done + row.position, total, self.tally.kept)
            done += part.size
        if self.on_progress:
            self.on_progress(total, total, self.tally.kept)

    def _enough(self, split: str | None) -> bool:
        """Whether the limit is reached: in this split where splits are given, else in all."""
        limit = self.options.limit
        if limit is None:
            return False
        return (self.tally.splits[split]["stories"] if split else self.tally.kept) >= limit

    def _clean(self, row: SourceRow) -> SourceRow | None:
        """The row as it goes into the corpus, or None with the reason counted."""
        prompt, story = replace_surrogates(row.prompt), replace_surrogates(row.story)
        replaced = (prompt, story) != (row.prompt, row.story)
        prompt, story = prompt.strip(), story.strip()
        words = len(story.split())
        least, most = self.options.min_words or 1, self.options.max_words or sys.maxsize
        cut = self.options.cut and words > most
        if cut:
            story = cut_to_words(story, most)
            words = len(story.split())
        if words > most or (cut and not words):
            reason = TOO_LONG
        elif words < least:
            reason = TOO_SHORT if words else EMPTY
        elif self.options.deduplicate and not self.seen_stories.add(normalise(story)):
            reason = DUPLICATE
        else:
            reason = None
        if reason:
            self.tally.dropped[reason] += 1
            return None
        self.tally.cut += cut
        self.tally.surrogates += replaced
        return replace(row, prompt=prompt, story=story)

    def _compare_prompt(self, prompt: str, split: str) -> None:
        """Count the train stories whose prompt is held out as well: given splits are kept, but this should be known."""
        if split == "train":
            self.tally.shared_prompts += prompt in self.held_out_prompts
        else:
            self.held_out_prompts.add(prompt)


def replace_surrogates(text: str) -> str:
    """Half a character, which no file can hold, becomes U+FFFD (JSON escapes such as `\\ud83d` can bring one in)."""
    return _SURROGATE.sub("\ufffd", text)
