"""The model card, `README.md` of a checkpoint: what was trained, on what, how far, and what the watchdog saw."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discodvt import __version__
from discodvt.stored_weights import BASE, Part

if TYPE_CHECKING:
    from discodvt.training.assembly import Recipe


def model_card(
    recipe: "Recipe",
    progress: dict[str, Any],
    *,
    total: int,
    unit: str,
    parameters: int,
    frozen: Sequence[str],
    part: Part | None = None,
) -> str:
    """`README.md` of a checkpoint: what was trained, on what, how far, and what the watchdog saw."""
    parts = sorted({name.partition(".")[0] for name in frozen})
    unreached = progress["unreached"]
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
        recipe.summary,
        "",
        f"- Data: {recipe.card.data or recipe.data.corpus}",
        f"- License of the data: {recipe.card.license or 'not stated in the recipe'}",
        f"- Started from: {recipe.model.init or 'random weights'}",
        f"- Step {progress['step']:,} of {total:,}; {progress['tokens']:,} {unit} seen; seed {recipe.seed}",
        f"- Parameters: {parameters:,}, of which {len(frozen)} tensors frozen"
        + (f" ({', '.join(parts)})" if parts else ""),
        *([f"- Holds only what was trained; the rest is of {part} (`{BASE}`)"] if part else []),
        f"- Best so far: step {progress['best_step']}, by {recipe.validation.select_by}",
        f"- Written by discodvt {__version__}",
        "",
        "## Validation, at argmax codes" if "codes_used" in progress["figures"] else "## Validation",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name.replace('_', ' ')} | {value:.4f} |" for name, value in progress["figures"].items()),
        "",
        "## Watchdog",
        "",
        *([f"- {alarm}" for alarm in progress["alarms"]] or ["No alarm."]),
        *([f"- without gradient at the second step: {', '.join(unreached)}"] if unreached else []),
        "",
        *_changes(progress.get("changes", [])),
        "## Recipe",
        "",
        "```json",
        json.dumps(recipe.as_dict(), indent=2, ensure_ascii=False),
        "```",
        "",
    ]
    return "\n".join(lines)


def _changes(changes: Sequence[dict[str, Any]]) -> list[str]:
    """What was changed when the run was resumed, as a section of the card."""
    lines = [f"- step {each['step']}: {each['key']} from {each['from']} to {each['to']}" for each in changes]
    return ["## Changed on resume", "", *lines, ""] if lines else []
