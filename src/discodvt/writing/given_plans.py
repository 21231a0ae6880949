"""Plans that are given, not drawn: typed as codes, kept in a file of stories, or read off a text by the posterior."""

from pathlib import Path
from typing import TYPE_CHECKING

from discodvt.errors import BadRequest
from discodvt.writing.stories_file import read_stories

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter

Plan = tuple[int, ...]


def typed_plan(text: str) -> Plan:
    """`12 7 201`, also with commas, as codes."""
    words = text.replace(",", " ").split()
    wrong = [word for word in words if not (word.isascii() and word.isdigit())]
    if wrong:
        raise BadRequest(f"--plan: {wrong[0]!r} is no code; give whole numbers, such as --plan '12 7 201'")
    if not words:
        raise BadRequest("--plan: no codes in it; give whole numbers, such as --plan '12 7 201'")
    return tuple(map(int, words))


def plan_from(source: str, writer: "StoryWriter") -> Plan:
    """The plan of a text file, or of a story in a file of stories: `stories.jsonl` or `stories.jsonl#ID`."""
    path, id = Path(source), ""
    if not path.exists() and "#" in source:
        name, _, id = source.partition(".jsonl#")
        path = Path(name + ".jsonl") if id else path
    if path.suffix == ".jsonl":
        return _kept_plan(path, id)
    text = _read(path)
    if not text.strip():
        raise BadRequest(f"{path}: empty; give a text file with a story")
    return writer.plan_of(text.strip())


def _kept_plan(path: Path, id: str) -> Plan:
    stories = list(read_stories(path))
    chosen = [story for story in stories if story.id == id] if id else stories
    if not chosen:
        raise BadRequest(f"{path}: no story {id!r}; it has {', '.join(story.id for story in stories[:5])} ...")
    if len(chosen) > 1:
        raise BadRequest(f"{path}: {len(chosen)} stories in it; name one, such as {path}#{chosen[0].id}")
    if not chosen[0].plan:
        raise BadRequest(f"{path}: story {chosen[0].id!r} was written without a plan; choose another")
    return chosen[0].plan


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}; give a text file, or stories.jsonl#ID") from None
    except UnicodeDecodeError as error:
        raise BadRequest(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from None
