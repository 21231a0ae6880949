"""A generator and a prior that were trained side by side on the same codes, as one writer.

usage: python recipes/nano/join.py GENERATOR PRIOR_RUN OUT

The prior was trained beside the DiscoDVT whose codes the generator went on with (`model.tune = "generator"`); that its
posterior, convolutions and codes are the generator's is checked.
"""

import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

CODES = ("posterior.", "down.", "bottleneck.")


def join(generator: Path, run: Path, out: Path) -> None:
    ours, theirs = (load_file(directory / "model.safetensors") for directory in (generator, run))
    for name, weight in theirs.items():
        if name.startswith(CODES) and not torch.equal(weight, ours[name]):
            raise SystemExit(f"{run}: its prior learned other codes than those of {generator} ({name} differs)")
    out.mkdir(parents=True)
    for path in sorted(generator.iterdir()):
        if path.is_file() and path.name != "manifest.json":
            shutil.copy(path, out / path.name)
    shutil.copytree(run / "prior", out / "prior")


if __name__ == "__main__":
    join(*map(Path, sys.argv[1:4]))
