"""The tokens of a corpus on disk, made once and read by every training process: stage `tokenize`.

Reads the train and valid splits of a corpus. Writes a stage directory with, for each split, shards of a fixed number of
rows (`train/000000.safetensors`: prompts, stories, EDU boundaries and relations as values and offsets) and the lengths
of all its stories (`train/lengths.safetensors`), by which training makes its batches, whatever shard a story is in. All
are mapped into memory: a process holds what it is reading, however large the corpus.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from discodvt.artefacts import StageDirectory, StageFacts, open_stage, read_manifest
from discodvt.corpus.records import row_count
from discodvt.corpus.split_shards import SplitShard, cut_splits, write_shards
from discodvt.data.mapped_arrays import create_arrays, map_arrays
from discodvt.data.tokens import Ints, Ragged, Tokens, TokenSettings, no_story, tokenize_rows
from discodvt.errors import BadRequest
from discodvt.executors import Place

STAGE = "tokenize"
ROWS_PER_SHARD = 8192  # 16 MB of stories of 512 subwords
OPEN_SHARDS = 64  # mapped at a time: a system has a limit, and what is mapped counts as a process's memory
TOKENIZER = "tokenizer"
LENGTHS = "lengths.safetensors"
_COLUMNS = ("prompts", "stories", "edus", "relations")
_KNOWN = ("story_lengths", "pair_counts")


def shard_name(split: str, number: int) -> str:
    return f"{split}/{number:06d}.safetensors"


def token_config(
    tokenizer: PreTrainedTokenizerBase, settings: TokenSettings, limits: Mapping[str, int | None]
) -> dict[str, Any]:
    """What tokens depend on besides the corpus; `limits` are rows that are read of a split."""
    return {
        "tokenizer": fingerprint(tokenizer),
        "symbols": dict(settings.symbols._asdict()),
        "prompt_tokens": settings.prompt_tokens,
        "story_tokens": settings.story_tokens,
        "prompts": settings.with_prompts,
        "relations": settings.with_relations,
        "rows": dict(limits),
    }


def fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of all that decides which subwords a text has."""
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    told = {name: parts[name] for name in ("normalizer", "pre_tokenizer", "model", "added_tokens")}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def tokenize_corpus(
    files: Mapping[str, Path],
    out: Path,
    tokenizer: PreTrainedTokenizerBase,
    *,
    settings: TokenSettings,
    limits: Mapping[str, int | None],
    inputs: bool = True,
    place: Place | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> StageFacts:
    """Tokenise the splits of a corpus into `out`; `progress` is called with the rows done and in all.

    `inputs` says whether the manifest names the files by their hashes, which takes as long as reading them.
    """
    config, text = token_config(tokenizer, settings, limits), tokenizer.backend_tokenizer.to_str()
    sizes = {split: min(row_count(path), limits[split] or row_count(path)) for split, path in files.items()}
    with open_stage(
        out, STAGE, config=config, inputs=list(files.values()) if inputs else (), overwrite=overwrite
    ) as stage:
        if stage.complete:
            return StageFacts(stage.facts, already_complete=True)
        shards = cut_splits(files, sizes, ROWS_PER_SHARD)
        work = partial(_work, text, settings)
        write_shards(stage, shards, work, name=_file, place=place or Place(), progress=progress)
        with stage.abandoned_if_wrong():
            facts = {
                split: _finish_split(stage, split, [shard for shard in shards if shard.split == split], files[split])
                for split in files
            }
        with stage.writing_folder(TOKENIZER) as folder:
            tokenizer.save_pretrained(folder)
        stage.finish(**facts)
        return StageFacts(facts)


def _file(shard: SplitShard) -> str:
    return shard_name(shard.split, shard.number)


def _work(tokenizer: str, settings: TokenSettings, shard: SplitShard) -> bytes:
    return pack(tokenize_rows(shard.source, _open_tokenizer(tokenizer), settings, skip=shard.first, take=shard.rows))


@lru_cache(maxsize=1)
def _open_tokenizer(text: str) -> Tokenizer:
    """One tokenizer a process."""
    return Tokenizer.from_str(text)


def pack(tokens: Tokens) -> bytes:
    """Tokens held in memory, as the content of a shard."""
    arrays: dict[str, NDArray[Any]] = {"cut": np.array([tokens.cut_prompts, tokens.cut_stories], dtype=np.int64)}
    for name in _COLUMNS:
        column: Ragged = getattr(tokens, name)
        arrays |= {f"{name}.values": column.values, f"{name}.offsets": column.offsets}
    return save(arrays)


def open_shard(path: Path) -> Tokens:
    """A shard, mapped."""
    arrays = map_arrays(path)
    columns = {name: Ragged(arrays[f"{name}.values"], arrays[f"{name}.offsets"]) for name in _COLUMNS}
    return Tokens(**columns, cut_prompts=int(arrays["cut"][0]), cut_stories=int(arrays["cut"][1]))


def _finish_split(stage: StageDirectory, split: str, shards: list[SplitShard], source: Path) -> dict[str, Any]:
    """Write the lengths of a split's stories; returns what the manifest says of it."""
    paths = [stage.directory / _file(shard) for shard in shards]
    stories = [len(open_shard(path)) for path in paths]
    count = cut_prompts = cut_stories = 0
    if not sum(stories):
        raise BadRequest(no_story(source))
    with stage.writing(f"{split}/{LENGTHS}") as partial_path:
        arrays = create_arrays(partial_path, dict.fromkeys((*_COLUMNS, *_KNOWN), ("int64", sum(stories))))
        for path, end in zip(paths, accumulate(stories), strict=True):
            tokens = open_shard(path)
            for name, known in _lengths(tokens).items():
                arrays[name][end - len(tokens) : end] = known
            count += int(tokens.story_lengths.sum())
            cut_prompts, cut_stories = cut_prompts + tokens.cut_prompts, cut_stories + tokens.cut_stories
        del arrays
    return {
        "stories": sum(stories),
        "tokens": count,
        "cut_prompts": cut_prompts,
        "cut_stories": cut_stories,
        "source_bytes": source.stat().st_size,
        "shards": [[count, path.stat().st_size] for count, path in zip(stories, paths, strict=True)],
    }


def _lengths(tokens: Tokens) -> dict[str, NDArray[np.int64]]:
    """What training must know of every story without reading it."""
    known = {name: getattr(tokens, name).lengths for name in _COLUMNS}
    return known | {name: getattr(tokens, name) for name in _KNOWN}


class _Shards:
    """The shards of a split; the story of a number is looked up in its shard."""

    def __init__(self, directory: Path, split: str, stories: list[int]) -> None:
        self.ends = list(accumulate(stories))
        self.open = lru_cache(maxsize=OPEN_SHARDS)(lambda number: open_shard(directory / shard_name(split, number)))

    def place(self, row: int) -> tuple[Tokens, int]:
        """The shard of a row, and its number there."""
        shard = bisect_right(self.ends, row)
        tokens = self.open(shard)
        return tokens, int(row) - self.ends[shard] + len(tokens)


@dataclass(frozen=True)
class StoredColumn:
    """One column of all shards."""

    shards: _Shards
    name: str
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> Ints:
        tokens, place = self.shards.place(row)
        found: Ints = getattr(tokens, self.name)[place]
        return found


def open_tokens(directory: Path, split: str, *, with_relations: bool) -> Tokens:
    """The tokens of a split; a shard that is missing or not as long as it was written is refused."""
    facts = read_manifest(directory, STAGE)["facts"][split]
    for number, (_, size) in enumerate(facts["shards"]):
        path = directory / shard_name(split, number)
        found = path.stat().st_size if path.exists() else None
        if found != size:
            said = "is missing" if found is None else f"cut short, {found:,} of {size:,} bytes"
            raise BadRequest(f"{path}: {said}; run `discodvt tokenize` with --overwrite again")
    lengths = map_arrays(directory / split / LENGTHS)
    shards = _Shards(directory, split, [stories for stories, _ in facts["shards"]])
    columns: dict[str, Any] = {name: StoredColumn(shards, name, lengths[name]) for name in _COLUMNS}
    known = {name: lengths[name] for name in _KNOWN}
    if not with_relations:
        none = np.broadcast_to(np.int64(0), facts["stories"] + 1)
        columns |= dict.fromkeys(("edus", "relations"), Ragged(np.empty(0, dtype=np.int32), none))
        known["pair_counts"] = none[1:]
    tokens = Tokens(**columns, cut_prompts=facts["cut_prompts"], cut_stories=facts["cut_stories"])
    vars(tokens).update(known)  # in place of what would be computed from all stories
    return tokens


def check_tokens(directory: Path, config: Mapping[str, Any], files: Mapping[str, Path]) -> None:
    """Refuse tokens that are not what a recipe asks for (`token_config`), or of other files than those that are there.

    Relations may be there without being asked for.
    """
    manifest = read_manifest(directory, STAGE)
    held, asked = manifest["config"], json.loads(json.dumps(dict(config)))
    for key, wanted in asked.items():
        if held[key] != wanted and not (key == "relations" and held[key]):
            found = "another one" if key == "tokenizer" else f"{held[key]}, the recipe asks for {wanted}"
            raise BadRequest(f"data.tokens: {directory}: {key}: {found}; make tokens with this recipe")
    for split, path in files.items():
        if split in manifest["facts"] and manifest["facts"][split]["source_bytes"] != path.stat().st_size:
            raise BadRequest(f"data.tokens: {directory}: made of another {path.name} than {path}; make them again")
