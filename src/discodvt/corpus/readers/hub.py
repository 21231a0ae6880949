"""Datasets of the Hugging Face Hub (or a local dataset directory), streamed with the optional library `datasets`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from discodvt.corpus.columns import Columns, Record
from discodvt.corpus.records import SPLITS
from discodvt.corpus.sources import Part, Row
from discodvt.corpus.splits import split_named
from discodvt.errors import BadRequest, WorkFailed


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

    def parts(self) -> list[Part]:
        return [
            Part(label=split or theirs, split=split, size=0, read=partial(self._read, theirs))
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

    def _read(self, split: str) -> Iterator[Row]:
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
