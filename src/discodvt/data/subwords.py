"""Subwords: the symbols around a text, and a BART-compatible byte-level BPE trained on a corpus."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3, as in BART; `<mask>` is the last id


class Symbols(NamedTuple):
    """The symbols around a prompt and a story: the model reads `prompt_start x prompt_end`, `story_start y1 .. yM`.

    It predicts `y1 .. yM story_end`. `pad` fills batches up and is masked everywhere.
    """

    prompt_start: tuple[int, ...]
    prompt_end: tuple[int, ...]
    story_start: int
    story_end: int
    pad: int


def bart_symbols(tokenizer: "PreTrainedTokenizerBase") -> Symbols:
    """Prompts `<s> x </s>`, stories `<s> y </s>`."""
    bos, eos, pad = tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id
    return Symbols((bos,), (eos,), bos, eos, pad)


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
    return BartTokenizer(vocab=vocab, merges=merges, add_prefix_space=True)


def adding_a_space(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """The same tokenizer, but one that puts the space of `as_input` before a text by itself.

    Saved with a model, it reads prompts as training did, whoever opens it. A text that has the space gets no second.
    """
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    for name in ("pre_tokenizer", "post_processor"):
        if (parts[name] or {}).get("add_prefix_space") is False:
            parts[name]["add_prefix_space"] = True
    changed = Tokenizer.from_str(json.dumps(parts))
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer, backend.post_processor = changed.pre_tokenizer, changed.post_processor
    if "add_prefix_space" in tokenizer.init_kwargs:
        tokenizer.init_kwargs["add_prefix_space"] = tokenizer.add_prefix_space = True  # which is saved differs
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> list[Any]:
    """Texts as a model reads them: subwords, and their character offsets in `as_input` of each.

    `</s>` spelled out in a text is letters, as it is for whoever writes with the model: no end, no padding.
    """
    tokenizer.encode_special_tokens = True
    encoded: list[Any] = tokenizer.encode_batch([as_input(text) for text in texts], add_special_tokens=False)
    return encoded


def as_input(text: str) -> str:
    """A space is put before prompt and story, so that their first word is the word it is elsewhere."""
    return " " + text
