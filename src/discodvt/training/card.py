"""The model card written into every checkpoint: what was trained, on what, how far, and what the watchdog saw."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discodvt import __version__
from discodvt.config import Recipe

_WHAT = {
    "pretrain": "A BART grown from scratch by denoising stories.",
    "seq2seq": "A BART trained to write stories from prompts, without a plan.",
    "warm-start": "A DiscoDVT warmed up on contiguous text: codes and reconstruction, no prompts, no relations.",
    "reconstruct": "A DiscoDVT: a posterior that reads stories into codes and a generator that writes under them.",
    "prior": "A prior over the codes of a DiscoDVT: prompt in, plan out.",
}


def write_card(
    directory: Path, recipe: Recipe, progress: dict[str, Any], *, total: int, parameters: int, frozen: Sequence[str]
) -> None:
    """Write `README.md` for a checkpoint of this recipe."""
    lines = [
        "---",
        f"language: {recipe.card.language}",
        *([f"license: {recipe.card.license}"] if recipe.card.license else []),
        "library_name: discodvt",
        "tags: [discodvt, story-generation, discrete-latent-variables]",
        "---",
        "",
        f"# DiscoDVT: {recipe.stage}",
        "",
        _WHAT[recipe.stage],
        "",
        f"- Data: {recipe.card.data or recipe.data.corpus}",
        f"- License of the data: {recipe.card.license or 'not stated in the recipe'}",
        f"- Started from: {recipe.model.init or 'random weights'}",
        f"- Step {progress['step']:,} of {total:,}; {progress['tokens']:,} {_unit(recipe)} seen; seed {recipe.seed}",
        f"- Parameters: {parameters:,}, of which {len(frozen)} tensors frozen"
        + (f" ({_parts(frozen)})" if frozen else ""),
        f"- Best so far: step {progress['best_step']}, by {recipe.validation.select_by}",
        f"- Written by discodvt {__version__}",
        "",
        "## Validation, at argmax codes",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name.replace('_', ' ')} | {value:.4f} |" for name, value in progress["figures"].items()),
        "",
        "## Watchdog",
        "",
        *([f"- {alarm}" for alarm in progress["alarms"]] or ["No alarm."]),
        *(
            [f"- without gradient at the first step: {', '.join(progress['unreached'])}"]
            if progress["unreached"]
            else []
        ),
        "",
        "## Recipe",
        "",
        "```json",
        json.dumps(recipe.as_dict(), indent=2, ensure_ascii=False),
        "```",
        "",
    ]
    (directory / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _unit(recipe: Recipe) -> str:
    return "codes" if recipe.stage == "prior" else "tokens"


def _parts(names: Sequence[str]) -> str:
    return ", ".join(sorted({name.partition(".")[0] for name in names}))
