"""Stories from files, each beside its reference: by id, or by prompt where several stories share one.

Stories are JSONL {id, prompt, story, plan, seed, model, finish}; references the same, or a corpus directory, or one of
its Parquet files. By prompt, the k-th story of a prompt gets its k-th reference, round and round.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from discodvt.corpus.formats import json_object, read_lines
from discodvt.corpus.preparation import replace_surrogates
from discodvt.corpus.records import read_examples, split_files
from discodvt.errors import BadRequest

Match: TypeAlias = Literal["id", "prompt"]
Key: TypeAlias = tuple[str, int]  # an id or prompt, and how many had it before


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One story of a file; `where` names its line or row."""

    where: str
    id: str | None
    prompt: str | None
    story: str
    finish: str | None = None
    plan: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class MatchedStories:
    """Stories of one or two systems and the reference of each, in the same order; and how many were left out."""

    systems: list[list[StoryLine]]
    references: list[StoryLine]
    dropped: int  # stories of a system without a reference
    unused: int  # references without a story


def prompts_of(stories: Sequence[StoryLine]) -> list[str] | None:
    """The prompt of each story, where all have one. Stories with blank ones (`prepare books`) share none."""
    prompts = [story.prompt for story in stories if story.prompt is not None]
    if len(prompts) < len(stories):
        return None
    return [prompt if prompt.strip() else story.where for prompt, story in zip(prompts, stories, strict=True)]


def reference_file(path: Path, split: str) -> Path:
    """The file that holds the references: itself, or a split of a corpus directory."""
    if not path.is_dir():
        return path
    found = split_files(path)
    if split not in found:
        raise BadRequest(f"{path}: no split {split}; it has {', '.join(found)}")
    return found[split]


def read_story_lines(path: Path) -> list[StoryLine]:
    """All stories of a JSONL or Parquet file; a corrupt line is an error with its number."""
    stories = []
    for story in _parquet(path) if path.suffix == ".parquet" else _jsonl(path):
        if not story.story.strip():
            raise BadRequest(f"{story.where}: the story is empty; write it, or remove the line")
        stories.append(story)
    if not stories:
        raise BadRequest(f"{path}: no stories in it")
    return stories


def match(
    systems: Sequence[list[StoryLine]], references: list[StoryLine], *, by: Match = "id", drop_unmatched: bool = False
) -> MatchedStories:
    """Give every story of the first system its reference, and its counterpart of the second.

    A story without a reference or a reference without a story is an error, or left out with `drop_unmatched`.
    """
    first, *others = (dict(_keyed(system, by)) for system in systems)
    for other in others:
        _same_keys(first, other, by)
    known: dict[str, list[StoryLine]] = {}
    for (name, _), story in _keyed(references, by):
        known.setdefault(name, []).append(story)
    matched = [key for key in first if key[0] in known]
    used = {name for name, _ in matched}
    alone = [story for (name, _), story in first.items() if name not in known]
    unused = [story for name, group in known.items() if name not in used for story in group]
    if not matched:
        raise BadRequest(
            f"{alone[0].where}: no reference with this {by}, nor with that of any other story; "
            "check `references`, `split` and `by`",
            parameter=("references", "split", "by"),
        )
    if alone and not drop_unmatched:
        raise _unmatched(alone, "reference", by, f"{len(first)} stories")
    if unused and not drop_unmatched:
        raise _unmatched(unused, "story", by, f"{len(references)} references")
    return MatchedStories(
        systems=[[system[key] for key in matched] for system in (first, *others)],
        references=[known[name][earlier % len(known[name])] for name, earlier in matched],
        dropped=len(alone),
        unused=len(unused),
    )


def _unmatched(alone: list[StoryLine], wanted: str, by: Match, among: str) -> BadRequest:
    more = f", nor for {len(alone) - 1} more" if len(alone) > 1 else ""
    return BadRequest(
        f"{alone[0].where}: no {wanted} with this {by}{more} of {among}; check `references`, `split` and `by`, "
        "or leave out what does not match with `drop_unmatched`",
        parameter=("references", "split", "by", "drop_unmatched"),
    )


def _keyed(stories: Iterable[StoryLine], by: Match) -> Iterator[tuple[Key, StoryLine]]:
    """Each story with its id or prompt, counted; of ids there may be but one each."""
    seen: Counter[str] = Counter()
    for story in stories:
        name = story.id if by == "id" else story.prompt
        if name is None:
            other = "prompt" if by == "id" else "id"
            raise BadRequest(f"{story.where}: no {by} to match by; add it, or `by` {other}", parameter="by")
        if by == "id" and seen[name]:
            raise BadRequest(
                f"{story.where}: id {name!r} is there twice; give each story its own, or `by` prompt", parameter="by"
            )
        yield (name, seen[name]), story
        seen[name] += 1


def _same_keys(first: dict[Key, StoryLine], other: dict[Key, StoryLine], by: Match) -> None:
    for one, two in ((first, other), (other, first)):
        alone = [story for key, story in one.items() if key not in two]
        if alone:
            more = f", nor are {len(alone) - 1} more" if len(alone) > 1 else ""
            raise BadRequest(
                f"{alone[0].where}: its {by} is not among the other system's stories{more}; "
                "compare systems on the same prompts"
            )


def _jsonl(path: Path) -> Iterator[StoryLine]:
    for line in read_lines(path):
        where = f"{path}:{line.number}"
        if not line.content.strip():
            continue
        record = json_object(line.content, where)
        fields: dict[str, Any] = {name: record.get(name) for name in ("id", "prompt", "story", "finish")}
        fields |= {name: replace_surrogates(value) for name, value in fields.items() if isinstance(value, str)}
        wrong = [name for name, value in fields.items() if not isinstance(value, str | None)]
        if wrong:
            raise BadRequest(f"{where}: {wrong[0]} is not a string")
        plan = _plan(where, record.get("plan"))
        if fields["story"] is None:
            raise BadRequest(f"{where}: the story is missing; write it, or remove the line")
        yield StoryLine(where, **fields, plan=plan)


def _parquet(path: Path) -> Iterator[StoryLine]:
    for number, row in enumerate(read_examples(path), start=1):
        yield StoryLine(f"{path} row {number}", row.id, row.prompt, row.story)


def _plan(where: str, codes: Any) -> tuple[int, ...] | None:
    """The codes a story was written from; None where it had no plan."""
    if codes is not None and not (
        isinstance(codes, list) and all(type(code) is int and 0 <= code < 2**31 for code in codes)
    ):
        raise BadRequest(f"{where}: plan is not a list of codes")
    return tuple(codes) if codes else None
