"""The prompts of a run, and plans that are given instead of sampled.

Prompts are typed, or the lines of a text file, or the column `prompt` of JSONL, CSV and Parquet files. Plans are typed,
taken from a file of stories, or read off a text by the posterior.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from discodvt.writing.writer import StoryWriter

Plan = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt, the id its stories take, and where it stands, for messages."""

    id: str
    text: str
    place: str


def typed_prompts(texts: Sequence[str]) -> list[Prompt]:
    """Prompts of the command line, numbered from 1."""
    return _checked(Prompt(str(number), text, f"prompt {number}") for number, text in enumerate(texts, start=1))


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts of a file, by its suffix; without an id they take the number of their line or row."""
    from discodvt.corpus.formats import CODECS, FORMATS

    if path.is_dir():
        raise BadRequest(f"{path}: a directory; give one of its files, such as {path / 'test.parquet'}")
    if not path.exists() and str(path) != "-":
        raise BadRequest(f"{path}: no such file; check the path")
    if path.is_file() and not path.stat().st_size:
        raise BadRequest(f"{path}: the file is empty; give one with prompts in it")
    kind = (path.with_suffix("") if path.suffix in CODECS else path).suffix.removeprefix(".")
    prompts = _checked(_rows(path, kind) if kind in FORMATS else _lines(path))
    if not prompts:
        hint = "give one with a row for each prompt" if kind in FORMATS else "write one per line"
        raise BadRequest(f"{path}: no prompt in it; {hint}")
    return prompts


def story_ids(prompts: Sequence[Prompt], stories_each: int) -> list[str]:
    """The id of every story: its prompt's, or `id#1`, `id#2` ... where a prompt has several."""
    if stories_each == 1:
        return [prompt.id for prompt in prompts]
    return [f"{prompt.id}#{number}" for prompt in prompts for number in range(1, stories_each + 1)]


def typed_plan(text: str) -> Plan:
    """`12 7 201`, also with commas, as codes."""
    words = text.replace(",", " ").split()
    wrong = [word for word in words if not is_number(word)]
    if wrong:
        raise BadRequest(f"`plan`: {wrong[0][:20]!r} is no code; give whole numbers, such as '12 7 201'", "plan")
    if not words:
        raise BadRequest("`plan`: no codes in it; give whole numbers, such as '12 7 201'", "plan")
    return tuple(map(int, words))


def is_number(text: str) -> bool:
    """Whether a text is a whole number of a size that places and codes can have."""
    return text.isascii() and text.isdigit() and len(text) < 10


def typed_pairs(texts: Sequence[str], parameter: str, example: str) -> list[tuple[int, str]]:
    """`5:because` as a place of the plan and what is wanted there."""
    pairs = []
    for text in texts:
        place, _, wanted = text.partition(":")
        if not is_number(place) or not wanted.strip():
            raise BadRequest(
                f"`{parameter}` {text[:40]}: expected a place and what to have there, as {example}", parameter
            )
        pairs.append((int(place), wanted.strip()))
    return pairs


def typed_locks(texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """`5:201` as a place of the plan and the code it must have."""
    pairs = typed_pairs(texts, "lock", "5:201")
    wrong = [code for _, code in pairs if not is_number(code)]
    if wrong:
        raise BadRequest(f"`lock`: {wrong[0][:20]!r} is no code; give a whole number, as 5:201", "lock")
    if len({place for place, _ in pairs}) < len(pairs):
        raise BadRequest("`lock`: two codes for one place; give each place one", "lock")
    return tuple((place, int(code)) for place, code in pairs)


def typed_beginning(text: str) -> str:
    """How a story begins: the text itself, or `@FILE`."""
    found = _read(Path(text[1:])) if text.startswith("@") else text
    if not found.strip():
        raise BadRequest("`begin_with`: no text in it; give a few words, or @FILE", "begin_with")
    return found.strip()


def read_plan(source: str, writer: "StoryWriter") -> Plan:
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


def _lines(path: Path) -> Iterator[Prompt]:
    """Lines of a text file; blank ones are passed over."""
    from discodvt.corpus.formats import read_lines

    for line in read_lines(path):
        if line.content.strip():
            yield Prompt(str(line.number), line.content.strip(), f"{path}:{line.number}")


def _rows(path: Path, kind: str) -> Iterator[Prompt]:
    from discodvt.corpus.formats import FORMATS, text_of

    for number, record in enumerate(FORMATS[kind](path, _columns), start=1):
        id = record.values.get("id", number)
        if isinstance(id, bool) or not isinstance(id, str | int) or not str(id).strip():
            raise BadRequest(f"{record.place}: no usable id; expected text or a whole number")
        yield Prompt(str(id), text_of(record, "prompt"), record.place)


def _columns(present: Collection[str], place: str) -> list[str]:
    if "prompt" not in present:
        raise BadRequest(f"{place}: no column `prompt`; it has {', '.join(present) or 'none'}")
    return [name for name in ("id", "prompt") if name in present]


def _checked(prompts: Iterable[Prompt]) -> list[Prompt]:
    """All prompts, none empty, no id twice; half a character (a terminal may send one) becomes `?`."""
    seen: dict[str, str] = {}
    kept = []
    for prompt in prompts:
        if not prompt.text.strip():
            raise BadRequest(f"{prompt.place}: the prompt is empty; write a title or a first sentence")
        if prompt.id in seen:
            raise BadRequest(f"{prompt.place}: id {prompt.id!r} is that of {seen[prompt.id]} too; give each its own")
        seen[prompt.id] = prompt.place
        id, text = (value.encode(errors="replace").decode() for value in (prompt.id, prompt.text))
        kept.append(Prompt(id, text, prompt.place))
    return kept


def _kept_plan(path: Path, id: str) -> Plan:
    from discodvt.writing.generate_stage import read_stories

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
