"""A DiscoDVT whose codes are made of bits, with the logits of the bits scaled down: the same codes, less certain.

usage: python recipes/nano/soften.py WRITER OUT [--scale 0.3]

Bits that are certain get no gradient through the noise, so codes that have been trained for long no longer move. With
smaller logits they do: a joint prior (`loss.prior`) can make them easier to predict (docs/experiments.md).
"""

import shutil
from argparse import ArgumentParser
from pathlib import Path

from safetensors.torch import load_file, save_file

LOGITS = "bottleneck.to_bits."


def soften(writer: Path, out: Path, scale: float) -> None:
    shutil.copytree(writer, out)
    weights = {name: weight.float() for name, weight in load_file(writer / "model.safetensors").items()}
    scaled = [name for name in weights if name.startswith(LOGITS)]
    if not scaled:
        raise SystemExit(f"{writer}: no codes made of bits (no weights below {LOGITS})")
    for name in scaled:
        weights[name] *= scale
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("writer", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--scale", type=float, default=0.3)
    given = parser.parse_args()
    soften(given.writer, given.out, given.scale)
