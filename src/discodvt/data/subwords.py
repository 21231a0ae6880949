"""Subwords: a BART-compatible byte-level BPE, opened from a checkpoint or trained on a corpus."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from discodvt.errors import BadRequest

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3, as in BART; `<mask>` is the last id


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> "PreTrainedTokenizerBase":
    """A byte-level BPE of exactly `vocabulary` entries at most; the same texts give the same tokenizer."""
    from transformers import BartTokenizer

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - 1,  # one is left for `<mask>`
        special_tokens=list(SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator((as_input(text) for text in texts), trainer)
    learned: dict[str, Any] = json.loads(bpe.to_str())["model"]
    vocab = learned["vocab"] | {"<mask>": len(learned["vocab"])}
    merges: Any = [tuple(merge) for merge in learned["merges"]]
    return BartTokenizer(vocab=vocab, merges=merges)


def open_tokenizer(source: str | Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a checkpoint (directory or Hub id), or of a directory with `vocab.json` and `merges.txt`."""
    from transformers import AutoTokenizer, BartTokenizer

    directory = Path(source)
    try:
        if (directory / "vocab.json").exists() and not (directory / "tokenizer.json").exists():
            return BartTokenizer(vocab=str(directory / "vocab.json"), merges=str(directory / "merges.txt"))
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise BadRequest(f"{source}: no tokenizer could be opened ({first}); give a BART checkpoint") from None
    for mark in ("is_local", "local_files_only"):  # how it was opened is no part of it, and must not be saved with it
        tokenizer.init_kwargs.pop(mark, None)
    return tokenizer


def as_input(text: str) -> str:
    """A space is put before prompt and story, so that their first word is the word it is elsewhere."""
    return " " + text
