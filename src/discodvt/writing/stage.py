"""The generate stage: prompts in, stories out, in order; with a file they are kept there and a killed run resumes.

Story number i of a run is drawn from the random stream (seed, i, prompt), whatever the batch it is written in.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from discodvt.artefacts import file_hash
from discodvt.writing.prompts import Prompt, story_ids
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.stories_file import open_stories, read_stories
from discodvt.writing.story import Request, Story

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter

MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "model*.safetensors",
)


def write_stories(
    writer: "StoryWriter",
    prompts: Sequence[Prompt],
    params: SamplingParams,
    *,
    stories_each: int = 1,
    seed: int = 0,
    plan: tuple[int, ...] | None = None,
    batch_size: int = 32,
    output: Path | None = None,
    overwrite: bool = False,
) -> Iterator[Story]:
    """Write `stories_each` stories to every prompt; those a file already holds come first, read from it."""
    ids = story_ids(prompts, stories_each)

    def written_from(first: int) -> Iterator[Story]:
        requests = (
            Request(prompts[index // stories_each].text, index=index, plan=plan, seed=seed, id=ids[index])
            for index in range(first, len(ids))
        )
        return in_order(writer.write_many(requests, params, batch_size=batch_size), first)

    if output is None:
        yield from written_from(0)
        return
    config = {
        "model": writer.name,
        "model_files": _files(writer.directory),
        "int8": writer.int8,
        "prompts": _digest(json.dumps([[prompt.id, prompt.text] for prompt in prompts])),
        "stories_each": stories_each,
        "seed": seed,
        "plan": plan,
        **asdict(params),
    }
    with open_stories(output, ids, config=config, overwrite=overwrite) as file:
        yield from islice(read_stories(output), file.held) if file.held else ()
        for story in written_from(file.held):
            file.add(story)
            yield story
        if not file.complete:
            file.finish(stories=len(ids))


def in_order(stories: Iterable[Story], first: int) -> Iterator[Story]:
    """Stories as they finish, held back until all before them are there, so that a file is always a beginning."""
    waiting: dict[int, Story] = {}
    for story in stories:
        waiting[story.index] = story
        while first in waiting:
            yield waiting.pop(first)
            first += 1


def _files(directory: Path) -> dict[str, str]:
    """Hashes of what a writer is opened from: its name may come to stand for another model."""
    found = [path for folder in (directory, directory / "prior") for name in MODEL_FILES for path in folder.glob(name)]
    return {str(path.relative_to(directory)): file_hash(path) for path in sorted(found)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
