"""The JSON files of a checkpoint, `config.json` and `generation_config.json`, checked before a model is built."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from discodvt.errors import BadRequest

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
    "min_new_tokens": (0, True),
    "max_new_tokens": (1, True),
    "prompt_tokens": (1, True),
}


class Shapes(Protocol):
    """Weights by name, of which only the shapes are asked for."""

    def __iter__(self) -> Iterator[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...


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
