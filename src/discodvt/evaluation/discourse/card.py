"""The card of a relation classifier: what it is, what it learned from, how well it does."""

from pathlib import Path
from typing import Any

from discodvt import __version__


def write_card(directory: Path, *, config: dict[str, Any], facts: dict[str, Any], progress: dict[str, Any]) -> None:
    """Write `README.md` for a classifier."""
    pairs = ", ".join(f"{count:,} {role}" for role, count in facts["pairs"].items())
    lines = [
        "---",
        "library_name: discodvt",
        "tags: [discodvt, discourse-markers, text-classification]",
        "---",
        "",
        "# Discourse relation classifier",
        "",
        "Names the marker taken out between two arguments; made to judge stories, by `discodvt discourse score`.",
        "",
        *(["**A control: trained on shuffled labels. Use it for nothing else.**", ""] * config["shuffle_labels"]),
        f"- Encoder: {config['encoder']}, {facts['parameters']:,} parameters with the head",
        f"- Marker pairs: {pairs}",
        f"- Step {progress['step']:,}; best so far: step {progress['best_step']}",
        f"- Macro-accuracy on valid pairs: {progress['figures']['macro_accuracy']:.4f} (any one marker: "
        f"{1 / sum(count > 0 for count in facts['markers'].values()):.4f})",
        f"- Learning rate {config['learning_rate']}, {config['pairs_per_step']} pairs a step, "
        f"{config['epochs']} epochs, seed {config['seed']}",
        f"- Written by discodvt {__version__}",
        "",
        "| marker | training pairs |",
        "|---|---|",
        *(f"| {marker} | {count:,} |" for marker, count in facts["markers"].items()),
        "",
    ]
    (directory / "README.md").write_text("\n".join(lines), encoding="utf-8")
