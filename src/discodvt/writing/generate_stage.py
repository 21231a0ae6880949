"""The generate stage: prompts in, stories out, in order; with a file they are kept there and a killed run resumes.

The file is JSONL, one `Story` a line, in the order they were asked for. At any moment it is a beginning of the whole,
so a killed run goes on after its last whole line and ends in the same file. How it is locked, resumed, refused to other
requests and replaced: `discodvt.artefacts`.

Story number i of a run is sampled from the random stream (seed, i, prompt), whatever the batch it is written in.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from discodvt.artefacts import OutputFile, file_hash, open_output_file
from discodvt.errors import BadRequest
from discodvt.executors import Place
from discodvt.stored_weights import RESCORING, writer_parts
from discodvt.writing.candidates import CANDIDATES, Wish, write_best
from discodvt.writing.prompts import Prompt, story_ids
from discodvt.writing.sampling import SamplingParams
from discodvt.writing.story import Request, Story

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter

MODEL_FILES = (
    "config.json", "generation_config.json", "tokenizer.json", "vocab.json", "merges.txt", "model*.safetensors",
    "trained.safetensors", "base.json", RESCORING,
)  # fmt: skip


def write_stories(
    writer: "StoryWriter",
    prompts: Sequence[Prompt],
    params: SamplingParams,
    *,
    stories_each: int = 1,
    seed: int = 0,
    plan: tuple[int, ...] | None = None,
    locks: tuple[tuple[int, int], ...] = (),
    begin_with: str = "",
    best_of: int | None = None,
    wish: Wish | None = None,
    batch_size: int = 32,
    output: Path | None = None,
    overwrite: bool = False,
    model: str | None = None,
    workers: int | None = None,
    on: str = "local",
    resources: str = "",
) -> Iterator[Story]:
    """Write `stories_each` stories to every prompt; those a file already holds come first, read from it.

    Elsewhere than in this process (`Place` of `discodvt.executors`) stories are cut into shards
    (`discodvt.writing.sharded`), whose workers open `model` as `writer` was opened.
    """
    place, ids = place_of_writing(on, workers, resources, output=output), story_ids(prompts, stories_each)
    chosen = best_of or (CANDIDATES if wish else None)
    if chosen and not place.here:
        raise BadRequest("`workers`: not with `best_of` or `wish`; leave it out", ("workers", "best_of", "wish"))

    def requests_from(first: int) -> Iterator[Request]:
        return (
            Request(
                prompts[index // stories_each].text,
                index=index,
                plan=plan,
                seed=seed,
                id=ids[index],
                locks=locks,
                begin_with=begin_with,
            )
            for index in range(first, len(ids))
        )

    def written_from(first: int) -> Iterator[Story]:
        requests = requests_from(first)
        if chosen:
            return write_best(writer, requests, params, candidates=chosen, wish=wish, batch_size=batch_size)
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
    control = {"locks": locks, "begin_with": begin_with, "best_of": best_of, "wish": wish}
    config |= {name: value for name, value in control.items() if value}
    with open_stories(output, ids, config=config, overwrite=overwrite) as file:
        yield from islice(read_stories(file.output.working), file.held) if file.held else ()
        if place.here:
            for story in written_from(file.held):
                file.add(story)
                yield story
        elif not file.output.complete:
            from discodvt.writing.sharded import WriterSource, write_in_shards

            source = WriterSource.of(model, int8=writer.int8, engine=writer.engine, batch_size=batch_size)
            yield from write_in_shards(file, list(requests_from(0)), params, source=source, place=place)
        if not file.output.complete:
            file.output.finish(stories=len(ids))


def place_of_writing(on: str, workers: int | None, resources: str, *, output: Path | None) -> Place:
    """Where stories are written; elsewhere than in this process only into a file."""
    place = Place(on, workers, resources)
    if output is None and not place.here:
        given = "workers" if workers is not None else "on"
        raise BadRequest(f"`{given}`: for stories kept in a file; give an `output`", (given, "output"))
    return place


def in_order(stories: Iterable[Story], first: int) -> Iterator[Story]:
    """Stories as they finish, held back until all before them are there, so that a file is always a beginning."""
    waiting: dict[int, Story] = {}
    for story in stories:
        waiting[story.index] = story
        while first in waiting:
            yield waiting.pop(first)
            first += 1


class StoriesFile(NamedTuple):
    """An output file of stories; `held` of them were left by earlier runs of the same request."""

    output: OutputFile
    held: int

    def add(self, story: Story) -> None:
        """Append a story; once this returns, a killed process does not lose it."""
        self.output.append(story.as_line().encode())


@contextmanager
def open_stories(
    path: Path, ids: Sequence[str], *, config: Mapping[str, Any], overwrite: bool = False
) -> Iterator[StoriesFile]:
    """Lock the file for the stories `ids` of the request `config`, and read what it already holds of them."""
    with open_output_file(path, "generate", config=config, overwrite=overwrite) as output:
        try:
            yield StoriesFile(output, _held(output, ids))
        except BadRequest:
            if output.working.stat().st_size == 0:  # else there are stories to go on from
                output.abandon()
            raise


def read_stories(path: Path) -> Iterator[Story]:
    """Stream the stories of a file."""
    from discodvt.corpus.formats import read_lines

    for line in read_lines(path):
        if line.content.strip():
            yield Story.from_line(line.content, f"{path}:{line.number}")


def _held(output: OutputFile, ids: Sequence[str]) -> int:
    """How many stories the file holds: the first of `ids`. A last line torn by a kill is cut off."""
    held, whole = 0, 0  # stories, bytes
    output.file.seek(0)
    for line in output.file:
        if not line.endswith(b"\n"):
            output.file.truncate(whole)
            break
        place = f"{output.path}:{held + 1}"
        story = Story.from_line(line.decode("utf-8", errors="replace"), place)
        if held == len(ids) or story.id != ids[held]:
            raise BadRequest(
                f"{place}: story {story.id!r} is out of place; the file was changed, replace it with `overwrite`",
                parameter="overwrite",
            )
        held += 1
        whole += len(line)
    return held


def _files(directory: Path) -> dict[str, str]:
    """Hashes of what a writer is opened from: its name may come to stand for another model."""
    found = [path for folder in writer_parts(directory) for name in MODEL_FILES for path in folder.glob(name)]
    return {str(path.relative_to(directory)): file_hash(path) for path in sorted(found)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
