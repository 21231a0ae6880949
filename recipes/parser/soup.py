"""The mean of the weights of pipelines trained from the same start.

Reads  two or more pipelines of one architecture.
Writes one pipeline.
"""

import argparse
from pathlib import Path

import numpy as np
import spacy
from spacy.language import Language
from thinc.api import Model


def nodes(nlp: Language) -> list[Model]:
    """All layers of all components, in a fixed order."""
    return [node for _, pipe in nlp.pipeline for node in pipe.model.walk()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pipelines", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    pipelines = [spacy.load(path) for path in args.pipelines]
    for layers in zip(*(nodes(nlp) for nlp in pipelines), strict=True):
        for name in layers[0].param_names:
            if layers[0].has_param(name):
                layers[0].set_param(name, np.mean([layer.get_param(name) for layer in layers], axis=0))
    pipelines[0].to_disk(args.out)


if __name__ == "__main__":
    main()
