"""The tokenizer files of a checkpoint, opened with or without transformers."""

from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

from discodvt.errors import BadRequest, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt")


def open_tokenizer(source: str | Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a checkpoint (directory or Hub id), or of a directory with `vocab.json` and `merges.txt`."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoTokenizer, BartTokenizer

    directory = Path(source)
    if directory.is_dir() and not any((directory / name).exists() for name in _FILES):
        raise BadRequest(f"{directory}: no tokenizer.json in it; copy the tokenizer's files into it")
    if (directory / "tokenizer.json").exists():
        read_tokenizer(directory / "tokenizer.json")
    try:
        if (directory / "vocab.json").exists() and not (directory / "tokenizer.json").exists():
            return BartTokenizer(vocab=str(directory / "vocab.json"), merges=str(directory / "merges.txt"))
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError, TypeError, KeyError, StrictDataclassError) as error:
        raise BadRequest(f"{source}: no tokenizer could be opened ({first_line(error)})") from None
    for mark in ("is_local", "local_files_only"):  # how it was opened is no part of it, and must not be saved with it
        tokenizer.init_kwargs.pop(mark, None)
    return tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer file with subwords in it."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises nothing more special
        raise BadRequest(f"{path}: no tokenizer in it ({first_line(error)}); copy it again") from None
    if tokenizer.get_vocab_size() == 0:
        raise BadRequest(f"{path}: a tokenizer without subwords; copy it again")
    return tokenizer
