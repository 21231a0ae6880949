"""The mean of a DiscoDVT's generator and the language model it was grown from (Wortsman et al. 2022).

usage: python recipes/nano/mean.py WRITER BACKBONE OUT [--share 0.5]

The generator's weights become `share` of WRITER's and the rest of BACKBONE's; posterior, codes, up-sampling and prior
stay WRITER's. What training on plans took from the backbone's prose comes back, at the price of how well plans are
heard, which `weak-plans.toml` then restores.
"""

import json
import shutil
from argparse import ArgumentParser
from pathlib import Path

from safetensors.torch import load_file, save_file


def mean(writer: Path, backbone: Path, out: Path, share: float) -> None:
    shutil.copytree(writer, out)
    plain = load_file(backbone / "model.safetensors")
    weights = {name: weight.float() for name, weight in load_file(writer / "model.safetensors").items()}
    for name in [name for name in weights if name.startswith("generator.")]:
        weights[name] = share * weights[name] + (1 - share) * plain[name.removeprefix("generator.")].float()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    config = out / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"plan_strength": 1.0}, indent=2) + "\n")


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("writer", "backbone", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--share", type=float, default=0.5)
    given = parser.parse_args()
    mean(given.writer, given.backbone, given.out, given.share)
