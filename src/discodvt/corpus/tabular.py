"""Sources whose records have columns: JSONL, CSV and Parquet files, and datasets of the Hugging Face Hub.

One column is the story, one the prompt (or none: its first sentence, or a title). Files named `train`, `valid`
(`validation`, `val`, `dev`) and `test` are those splits: in a directory, or when two or more such files are given.
Other files are read one after the other and split by the stage. The Hub is streamed with the library `datasets`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from discodvt.corpus.formats import CODECS, FORMATS, Record, text_of
from discodvt.corpus.records import SPLITS
from discodvt.corpus.sentences import first_sentence
from discodvt.corpus.sources import SourcePart, SourceRow, split_named, stem
from discodvt.corpus.titles import make_title, wants_title
from discodvt.errors import BadRequest, WorkFailed

PromptFrom = Literal["column", "title", "first-sentence", "opening-or-title"]

FROM_THE_STORY = ("first-sentence", "opening-or-title")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column is what. `id_column` None: the column `id` where there is one; empty: the rows are numbered."""

    story_column: str = "story"
    prompt_column: str | None = None
    id_column: str | None = None
    prompt_from: PromptFrom = "column"
    keep_first_sentence: bool = False

    def __post_init__(self) -> None:
        if self.keep_first_sentence and self.prompt_from != "first-sentence":
            raise BadRequest(
                "`keep_first_sentence`: only with `prompt_from` first-sentence; add that or leave it out",
                parameter=("keep_first_sentence", "prompt_from"),
            )
        if self.prompt_column and self.prompt_from in FROM_THE_STORY:
            raise BadRequest(
                f"`prompt_column` {self.prompt_column}: `prompt_from` takes it from the story; drop one of the two",
                parameter=("prompt_column", "prompt_from"),
            )

    def settings(self) -> dict[str, Any]:
        """The columns as a manifest has them."""
        return {name.removesuffix("_column"): value for name, value in asdict(self).items()}

    @property
    def prompt_name(self) -> str | None:
        """The column of the prompt; None where it is made from the story."""
        if self.prompt_from in FROM_THE_STORY:
            return None
        return self.prompt_column or ("title" if self.prompt_from == "title" else "prompt")

    def needed(self, present: Collection[str], place: str) -> list[str]:
        """The columns to read of those present; one that is missing is an error that lists them."""
        named = {"story_column": self.story_column, "prompt_column": self.prompt_name, "id_column": self.id_column}
        names = {parameter: name for parameter, name in named.items() if name}
        for parameter, name in names.items():
            if name not in present:
                there = ", ".join(str(column) for column in present) or "none"
                hint = ", or set `prompt_from` to first-sentence" if parameter == "prompt_column" else ""
                raise BadRequest(
                    f"{place}: no column `{name}`; it has {there}; name one with `{parameter}`{hint}",
                    parameter=(parameter, "prompt_from"),
                )
        if self.id_column is None and "id" in present:
            names["id_column"] = "id"
        if self.prompt_from == "opening-or-title" and "title" in present:
            names["title"] = "title"
        return list(names.values())

    def row(self, record: Record) -> SourceRow:
        """The record, which has the columns needed, as a row; a value that is no text is an error that says where."""
        story = text_of(record, self.story_column)
        if self.prompt_name:
            prompt = text_of(record, self.prompt_name)
        else:
            prompt, story = self._from_story(story, record.values.get("title"))
        id_name = self.id_column if self.id_column is not None else "id"
        return SourceRow(
            prompt=prompt,
            story=story,
            place=record.place,
            position=record.position,
            id=_id_of(record, id_name) if id_name and id_name in record.values else None,
        )

    def _from_story(self, story: str, title: object) -> tuple[str, str]:
        """Prompt and story: a title (the row's own, or made) and all of it, or the first sentence and the rest."""
        if self.prompt_from == "opening-or-title":
            made = (
                title if isinstance(title, str) and title.strip() else make_title(story) if wants_title(story) else None
            )
            if made:
                return made, story
        opening, rest = first_sentence(story)
        return opening, story if self.keep_first_sentence else rest


@dataclass(frozen=True, slots=True)
class TabularFiles:
    """Files (or one directory) of one format; `given` names the files of each split instead."""

    kind: str
    paths: Sequence[Path] = ()
    columns: Columns = field(default_factory=Columns)
    given: Mapping[str, Path] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        splits = {path.name: split for path, split in self._files() if split}
        return {"columns": self.columns.settings(), "given_splits": splits}

    def files(self) -> list[Path]:
        return [path for path, _ in self._files()]

    def parts(self) -> list[SourcePart]:
        return [
            SourcePart(label=split or stem(path), split=split, size=path.stat().st_size, read=partial(self._read, path))
            for path, split in self._files()
        ]

    def _read(self, path: Path, max_story_mb: int) -> Iterator[SourceRow]:
        return map(self.columns.row, FORMATS[self.kind](path, self.columns.needed, max_story_mb=max_story_mb))

    def _files(self) -> list[tuple[Path, str | None]]:
        """The files, each with the split it holds."""
        if bool(self.given) == bool(self.paths):
            raise BadRequest(f"{self.kind}: expected either paths, or a file for each split; give one of the two")
        if self.given:
            return [(_existing(path), split) for split, path in self.given.items()]
        if len(self.paths) == 1 and self.paths[0].is_dir():
            return self._of_directory(self.paths[0])
        files = [_existing(path) for path in self.paths]
        for path in files:
            if files.count(path) > 1:
                raise BadRequest(f"{path}: given twice; name each file once")
        splits = [split_named(stem(path)) for path in files]
        if None in splits or len(set(splits)) < 2:
            return [(path, None) for path in files]
        return list(zip(files, splits, strict=True))

    def _of_directory(self, directory: Path) -> list[tuple[Path, str | None]]:
        suffixes = tuple(f".{self.kind}{packed}" for packed in ("", *CODECS))
        found = sorted(path for path in directory.iterdir() if path.name.endswith(suffixes) and path.is_file())
        if not found:
            raise BadRequest(f"{directory}: no *.{self.kind} file in it; give a directory or files that hold stories")
        named: dict[str, Path] = {}
        for path in found:
            if split_named(stem(path)) and (other := named.setdefault(stem(path), path)) != path:
                raise BadRequest(f"{path}: {other.name} stands beside it; keep one of the two")
        if named:
            return [(path, split_named(name)) for name, path in named.items()]
        return [(path, None) for path in found]


@dataclass(frozen=True, slots=True)
class HubDataset:
    """A dataset by name; `split_map` says which of its splits is train, valid and test (by their names otherwise)."""

    name: str
    config: str | None = None
    revision: str | None = None
    split_map: Mapping[str, str] = field(default_factory=dict)
    columns: Columns = field(default_factory=Columns)
    kind = "hf"

    def settings(self) -> dict[str, Any]:
        return {
            "dataset": Path(self.name).name if Path(self.name).exists() else self.name,
            "dataset_config": self.config,
            "revision": self.revision,
            "split_map": dict(self.split_map),
            "columns": self.columns.settings(),
        }

    def files(self) -> list[Path]:
        local = Path(self.name)
        return sorted(path for path in local.rglob("*") if path.is_file()) if local.is_dir() else []

    def parts(self) -> list[SourcePart]:
        return [
            SourcePart(label=split or theirs, split=split, size=0, read=partial(self._read, theirs))
            for theirs, split in self._splits().items()
        ]

    def _splits(self) -> dict[str, str | None]:
        """The dataset's splits to read, with ours; ours is None throughout where no name says which is which."""
        library = _library()
        if self.split_map:
            return {theirs: ours for ours, theirs in self.split_map.items()}
        with _one_line_errors(self.name):
            names = library.get_dataset_split_names(self.name, self.config, revision=self.revision)
        known: dict[str, str | None] = {name: split for name in names if (split := split_named(name))}
        return known if len(known) > 1 else dict.fromkeys(names)

    def _read(self, split: str, max_story_mb: int) -> Iterator[SourceRow]:  # the library reads; the stage counts
        with _one_line_errors(self.name):
            rows = _library().load_dataset(self.name, self.config, split=split, revision=self.revision, streaming=True)
            for number, values in enumerate(rows, start=1):
                record = Record(values, f"{self.name}[{split}]: row {number}", position=0)
                self.columns.needed(values.keys(), record.place)
                yield self.columns.row(record)


def parse_split_map(text: str) -> dict[str, str]:
    """`train=train,valid=validation` as our split -> theirs."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    found = {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
    wrong = [name for name, theirs in found.items() if name not in SPLITS or not theirs]
    if wrong or len(found) < len(pairs) or not found or len(set(found.values())) < len(found):
        raise BadRequest(
            f"`split_map` {text}: expected train=NAME,valid=NAME,test=NAME, each once at most", parameter="split_map"
        )
    return found


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise BadRequest("hf: the library `datasets` is not installed; pip install 'discodvt[hub]'") from None
    return datasets


@contextmanager
def _one_line_errors(name: str) -> Iterator[None]:
    """What `datasets` raises, as ours."""
    try:
        yield
    except ConnectionError as error:
        reason = " ".join(str(error).split())
        raise WorkFailed(f"{name}: the Hub does not answer ({reason}); try again later") from None
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise BadRequest(
            f"{name}: {reason}; check the dataset's name, `config` and `split_map`", parameter=("config", "split_map")
        ) from None


def _id_of(record: Record, column: str) -> str:
    value = record.values[column]
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise BadRequest(
            f"{record.place}: no usable id in column `{column}`; expected text or a whole number, "
            "or number the rows with `id_column` ''",
            parameter="id_column",
        )
    return str(value)


def _existing(path: Path) -> Path:
    if path.is_dir():
        raise BadRequest(f"{path}: a directory; give a single directory or one or more files")
    if not path.is_file():
        raise BadRequest(f"{path}: no such file; check the path")
    return path
