"""What a run leaves to read: `metrics.jsonl`, TensorBoard events, and plots at the end.

`metrics.jsonl` holds nothing that depends on the clock, so a resumed run writes the same lines; speed goes to
TensorBoard and the screen.
"""

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure

METRICS = "metrics.jsonl"


class Journal:
    """Metrics of one run; on resume, lines past the checkpoint are taken back."""

    def __init__(self, directory: Path, *, step: int, tensorboard: bool) -> None:
        self.path = directory / METRICS
        kept = [line for line in read_metrics(self.path) if line["step"] <= step] if step > 0 else []
        self.path.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self.writer = _tensorboard(directory / "tensorboard", step) if tensorboard else None

    def write(self, step: int, kind: str, figures: dict[str, float], *, clock: dict[str, float] | None = None) -> None:
        """One line of figures (`train` or `valid`); `clock` figures, such as speed, go to TensorBoard only."""
        line = {"step": step, "kind": kind, **figures}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self.writer is not None:
            for name, value in (figures | (clock or {})).items():
                self.writer.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last line cut short by a kill is dropped."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def plot(directory: Path) -> Path:
    """Every figure of the journal over steps, training and validation together."""
    lines = read_metrics(directory / METRICS)
    names = sorted({name for line in lines for name in line} - {"step", "kind"})
    columns = 3
    rows = max(1, -(-len(names) // columns))
    figure = Figure(figsize=(4 * columns, 2.6 * rows), layout="constrained")
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, place + 1)
        for kind, style in (("train", "-"), ("valid", "o-")):
            points = [(line["step"], line[name]) for line in lines if line["kind"] == kind and name in line]
            if points:
                axes.plot(*zip(*points, strict=True), style, label=kind, markersize=3, linewidth=1)
        axes.set_title(name.replace("_", " "), fontsize=9)
        axes.tick_params(labelsize=7)
        axes.legend(fontsize=7)
    path = directory / "training.png"
    figure.savefig(path, dpi=120, metadata={"Software": None})
    return path


def _tensorboard(directory: Path, step: int) -> Any:
    """A TensorBoard writer, where TensorBoard is installed (the `tensorboard` extra)."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(directory), purge_step=step + 1 if step > 0 else None)
