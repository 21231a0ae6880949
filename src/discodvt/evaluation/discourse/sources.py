"""Where marker pairs come from: annotated splits (nothing is parsed), stories of any kind (annotated here), and files
of pairs such as DisSent's (lines of s1, s2 and marker, as TSV or JSONL).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from discodvt.corpus import ANNOTATED_SCHEMA, columns_of, read_rows
from discodvt.corpus.textfiles import Line, read_lines
from discodvt.discourse import MARKERS, Annotator
from discodvt.discourse.parsers import Parser
from discodvt.errors import BadRequest
from discodvt.evaluation.discourse.pairs import Pair, bare, pairs_in
from discodvt.evaluation.matching import StoryLine, json_object, read_story_lines, reference_file

Progress = Callable[[int, int], None]  # done, in all


@dataclass(frozen=True, slots=True)
class PairedStory:
    """A story and the marker pairs in it."""

    told: StoryLine
    pairs: list[Pair]


def read_paired(
    path: Path, *, split: str, parser: str | Parser, progress: Progress = lambda done, total: None
) -> list[PairedStory]:
    """Every story of a file or of a corpus directory's split, with its pairs; parsed only where it is not annotated."""
    file = reference_file(path, split)
    if file.suffix == ".parquet" and _annotated(file):
        return list(annotated_stories(file))
    told = read_story_lines(file)
    stories = []
    for story, annotation in zip(told, Annotator(parser).annotate_many(each.story for each in told), strict=True):
        stories.append(PairedStory(story, list(pairs_in(story.story, annotation.edus, annotation.relations))))
        progress(len(stories), len(told))
    return stories


def annotated_stories(file: Path) -> Iterator[PairedStory]:
    """Stream the stories of an annotated split file."""
    for number, row in enumerate(read_rows(file, ANNOTATED_SCHEMA), start=1):
        where = f"{file} row {number}"
        edus = [(edu["start"], edu["end"]) for edu in row["edus"]]
        if len(row["relations"]) != max(0, len(edus) - 1):
            raise BadRequest(f"{where}: {len(edus)} EDUs with {len(row['relations'])} relations; annotate it again")
        told = StoryLine(where, row["id"], row["prompt"], row["story"])
        yield PairedStory(told, list(pairs_in(row["story"], edus, row["relations"])))


def annotated_pairs(file: Path) -> Iterator[Pair]:
    """Stream the pairs of an annotated split file; a corpus without annotations is refused."""
    if not _annotated(file):
        raise BadRequest(f"{file}: no annotations; run `discodvt annotate` on its corpus first")
    return (pair for story in annotated_stories(file) for pair in story.pairs)


def pair_file(path: Path, *, drop_unknown: bool = False) -> Iterator[Pair]:
    """Stream the pairs of a TSV or JSONL file (or a packed one); another marker than the ten is an error."""
    as_json = ".jsonl" in path.suffixes
    for line in read_lines(path):
        if not line.content.strip():
            continue
        first, second, marker = (_json if as_json else _tsv)(path, line)
        if marker not in MARKERS:
            if drop_unknown:
                continue
            raise BadRequest(
                f"{path}:{line.number}: marker {marker!r} is none of {', '.join(MARKERS)}; "
                "remove the line, or leave all such lines out with --drop-unknown"
            )
        pair = Pair(bare(first), bare(second), marker)
        if pair.arg1 and pair.arg2:
            yield pair


def _annotated(file: Path) -> bool:
    return set(ANNOTATED_SCHEMA.names) <= set(columns_of(file))


def _tsv(path: Path, line: Line) -> tuple[str, str, str]:
    fields = line.content.split("\t")
    if len(fields) != 3:
        raise BadRequest(f"{path}:{line.number}: found {len(fields)} columns, expected s1, s2, marker split by tabs")
    return fields[0], fields[1], fields[2].strip().lower()


def _json(path: Path, line: Line) -> tuple[str, str, str]:
    record = json_object(path, line)
    values = [record.get(name) for name in ("s1", "s2", "marker")]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != 3:
        raise BadRequest(f'{path}:{line.number}: expected an object with texts "s1", "s2" and "marker"')
    return texts[0], texts[1], texts[2].strip().lower()
