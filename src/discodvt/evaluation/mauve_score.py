"""MAUVE (Pillutla et al. 2021), by the optional package `mauve-text` (GPL: never a dependency, imported only here)."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

import numpy as np

from discodvt.errors import BadRequest
from discodvt.evaluation.grams import Floats, Weights
from discodvt.evaluation.measure import Direction, Resampling, Unit
from discodvt.evaluation.tokens import Text, as_line


@dataclass(frozen=True, slots=True)
class Mauve:
    """One number for two sets of texts; without interval, since each draw would cluster all texts again."""

    values: Floats
    definitions: tuple[str, ...]
    names: tuple[str, ...] = ("MAUVE",)
    direction: Direction = "higher"
    unit: Unit = "fraction"
    resampling: Resampling = "none"
    per_story: None = None

    def under(self, weights: Weights) -> Floats:
        raise NotImplementedError("MAUVE is not resampled")


def mauve(hypotheses: Sequence[Text], references: Sequence[Text], *, model: str, seed: int) -> Mauve:
    """MAUVE of the stories against the references in the features of a language model (a directory or Hub id)."""
    try:
        package = import_module("mauve")
    except ModuleNotFoundError:
        raise BadRequest("MAUVE is not installed; pip install mauve-text (GPL), or leave it out") from None
    human, ours = ([as_line(text) for text in texts] for texts in (references, hypotheses))
    found = package.compute_mauve(p_text=human, q_text=ours, featurize_model_name=model, seed=seed, verbose=False)
    return Mauve(np.array([float(found.mauve)]), (f"mauve|model:{model}|seed:{seed}|version:{version('mauve-text')}",))
