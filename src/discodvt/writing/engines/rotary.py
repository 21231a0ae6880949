"""Rotary position embeddings (Su et al. 2021) with the scalings of `config.json`, as rows of complex numbers.

The common scalings are computed here, yarn by transformers, which is imported only then. Scalings that change with the
length of a sequence (dynamic, longrope) are not for engines that keep rotated keys.
"""

from collections.abc import Mapping
from math import pi
from typing import Any

import torch
from torch import Tensor

KINDS = ("default", "linear", "llama3", "yarn")


def rotations(config: Mapping[str, Any], width: int, length: int) -> Tensor:
    """Rotation of each pair of a head of `width` numbers at each position: complex [length, width / 2]."""
    frequencies, scale = _frequencies(config, width)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * frequencies
    return torch.polar(torch.full_like(angles, scale), angles)


def rope_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a configuration, old (`rope_theta`, `rope_scaling`) or new (`rope_parameters`)."""
    settings = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    settings.setdefault("rope_theta", config.get("rope_theta", 10_000.0))
    settings["rope_type"] = settings.get("rope_type") or settings.get("type") or "default"
    return settings


def _frequencies(config: Mapping[str, Any], width: int) -> tuple[Tensor, float]:
    settings = rope_settings(config)
    kind = settings["rope_type"]
    powers = torch.arange(0, width, 2, dtype=torch.float32) / width
    plain = 1.0 / settings["rope_theta"] ** powers
    if kind == "default":
        return plain, 1.0
    if kind == "linear":
        return plain / settings["factor"], 1.0
    if kind == "llama3":
        return _llama3(plain, settings, config), 1.0
    return _by_transformers(config, kind)


def _llama3(plain: Tensor, settings: Mapping[str, Any], config: Mapping[str, Any]) -> Tensor:
    """Slow rotations are slowed down by `factor`, fast ones left, those between blended."""
    before = settings.get("original_max_position_embeddings") or config["max_position_embeddings"]
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = before * plain / (2 * pi)  # of each pair over the positions of the first training
    blend = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    scaled: Tensor = (1 - blend) * plain / settings["factor"] + blend * plain
    return scaled


def _by_transformers(config: Mapping[str, Any], kind: str) -> tuple[Tensor, float]:
    from transformers import AutoConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    settings = dict(config)
    whole: Any = AutoConfig.for_model(settings.pop("model_type"), **settings)
    frequencies, scale = ROPE_INIT_FUNCTIONS[kind](whole, torch.device("cpu"))
    return frequencies, float(scale)
