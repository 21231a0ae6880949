"""The file of stories that `discodvt generate` writes: JSONL, one record a story, in the order they were asked for.

At any moment the file is a beginning of the whole, so a killed run goes on after its last whole line and ends in the
same file. How it is locked, resumed, refused to other requests and replaced: `discodvt.artefacts`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discodvt.artefacts import OutputFile, open_output_file
from discodvt.errors import BadRequest
from discodvt.writing.story import Story


class StoriesFile:
    """An output file of stories. `open_stories` makes it."""

    def __init__(self, output: OutputFile, *, held: int) -> None:
        self._output = output
        self.held = held  # stories that earlier runs of the same request left

    @property
    def complete(self) -> bool:
        return self._output.complete

    def add(self, story: Story) -> None:
        """Append a story; once this returns, a killed process does not lose it."""
        self._output.append(story.as_line().encode())

    def finish(self, **facts: Any) -> None:
        """Write the manifest: the file is complete from here on."""
        self._output.finish(**facts)


@contextmanager
def open_stories(
    path: Path, ids: Sequence[str], *, config: Mapping[str, Any], overwrite: bool = False
) -> Iterator[StoriesFile]:
    """Lock the file for the stories `ids` of the request `config`, and read what it already holds of them."""
    with open_output_file(path, "generate", config=config, overwrite=overwrite) as output:
        stories = StoriesFile(output, held=_held(output, ids))
        try:
            yield stories
        except BadRequest:
            if path.stat().st_size == 0:  # else there are stories to go on from
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
