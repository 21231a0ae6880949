"""The files of a checkpoint but its weights: found on the Hub; settings (`config.json`, `generation_config.json`),
checked against the weights before a model is built; the tokenizer, opened with or without transformers.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tokenizers import Tokenizer

from discodvt.errors import BadRequest, first_line

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


_ON_THE_HUB = ["*.json", "*.txt", "*.model", "*.safetensors"]
_LAYERS = {  # keys of config.json, and where their layers are numbered in the weights
    "encoder_layers": re.compile(r"(?:^|\.)encoder\.layers\.(\d+)\."),
    "decoder_layers": re.compile(r"(?:^|\.)decoder\.layers\.(\d+)\."),
    "conv_layers": re.compile(r"(?:^|\.)up\.convolutions\.(\d+)\."),
}
_SIZES = (
    "d_model encoder_ffn_dim decoder_ffn_dim hidden_size intermediate_size vocab_size text_vocab_size code_width "
    "conv_channels relation_width num_relations encoder_attention_heads decoder_attention_heads num_attention_heads"
).split()
_SETTINGS = {  # of generation_config.json: least value, and whether it counts something
    "temperature": (0, False),
    "repetition_penalty": (0, False),
    "prompt_bias": (0, False),
    "min_new_tokens": (0, True),
    "max_new_tokens": (1, True),
    "prompt_tokens": (1, True),
}


class Shapes(Protocol):
    """Weights by name, of which only the shapes are asked for."""

    def __iter__(self) -> Iterator[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...


def downloaded(
    name: str, revision: str | None = None, *, asked_by: str = "", files: Sequence[str] = _ON_THE_HUB
) -> Path:
    """The directory of a model of the Hub, its pickles left out."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except (OSError, ValueError) as error:
        what = f"{asked_by}{name}" + (f", revision {revision}" if revision else "")
        reason = first_line(error)
        raise BadRequest(f"{what}: neither a directory nor a model on the Hub that can be reached ({reason})") from None


def read_settings(path: Path) -> dict[str, Any]:
    """A JSON file of settings; empty where there is none."""
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise BadRequest(f"{path}: no JSON object in it; copy the directory again") from None


def read_generation(path: Path) -> dict[str, Any]:
    """`generation_config.json`, its numbers checked; empty where there is none."""
    settings = read_settings(path)
    for name, (least, counts) in _SETTINGS.items():
        value = settings.get(name)
        fine = isinstance(value, int if counts else (int, float)) and not isinstance(value, bool)
        if value is not None and not (fine and least <= value < float("inf")):
            wanted = f"a {'whole ' if counts else ''}number of {least} or more"
            raise BadRequest(f"{path}: {name} is {json.dumps(value)}; expected {wanted}")
    return settings


def check_sizes(path: Path, config: dict[str, Any], weights: Shapes) -> None:
    """Refuse numbers no weight bears out, before a model of that size is built."""
    shapes = {name: weights.shape(name) for name in weights}
    largest = max((size for shape in shapes.values() for size in shape), default=1)
    for key, value in config.items():
        low, high = 1, largest
        if key in _LAYERS:
            low = high = len({found.group(1) for found in map(_LAYERS[key].search, shapes) if found})
        elif key in ("num_hidden_layers", "n_layer"):  # every architecture numbers them elsewhere
            high = len(shapes)
        elif key == "max_position_embeddings":
            rows = [shape[0] for name, shape in shapes.items() if name.endswith("embed_positions.weight")]
            high = min(rows, default=2**31)
        elif key == "backbone_config" and isinstance(value, dict):
            check_sizes(path, value, weights)
            continue
        elif key not in _SIZES:
            continue
        if value is not None and (type(value) is not int or not low <= value <= high):
            expected = f"{high}" if low == high else f"a whole number from {low} to {high:,}"
            raise BadRequest(f"{path}: {key} is {json.dumps(value)}; expected {expected}, as in the weights")
    for key in ("encoder_attention_heads", "decoder_attention_heads"):
        if "d_model" in config and config["d_model"] % config.get(key, 1):
            raise BadRequest(f"{path}: {key} is {config[key]}; expected a divisor of d_model {config['d_model']}")


_TOKENIZERS = ("tokenizer.json", "vocab.json", "tokenizer.model", "spiece.model", "vocab.txt")


def open_tokenizer(source: str | Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a checkpoint (directory or Hub id), or of a directory with `vocab.json` and `merges.txt`."""
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoTokenizer, BartTokenizer

    directory = Path(source)
    if directory.is_dir() and not any((directory / name).exists() for name in _TOKENIZERS):
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
