"""The loop trains a stage it knows nothing of: a line through points, made here."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from discodvt.config import Batch, LoopSettings, Optimizer, Run, Validation
from discodvt.data.batches import Order
from discodvt.errors import WorkFailed
from discodvt.training.assembly import Site
from discodvt.training.run import run_stage
from discodvt.training.stages import Objective, Stage, StageOutput, Term

SETTINGS = LoopSettings(
    seed=1,
    batch=Batch(stories_per_step=4, stories_per_micro_batch=2),
    optimizer=Optimizer(learning_rate=0.3),
    validation=Validation(every_steps=5, stories_per_batch=3),
    run=Run(steps=80, save_every_steps=10, tensorboard=False),
)


class LineConfig(PreTrainedConfig):
    model_type = "line"


class Line(PreTrainedModel):
    config_class = LineConfig

    def __init__(self, config: LineConfig) -> None:
        super().__init__(config)
        self.line = nn.Linear(1, 1)
        self.post_init()

    def forward(self, x):
        return self.line(x)


class SquaredError(Objective):
    terms = {"error": Term(1.0, "points")}  # noqa: RUF012

    def forward(self, batch, step=None):
        error = (self.model(batch["x"]) - batch["y"]).square()
        return StageOutput({"error": error.sum()}, {"near": (error < 0.05).sum()})

    def figures(self, tallies):
        return {"near": float(tallies["near"])}


@dataclass(frozen=True)
class Points:
    xs: np.ndarray

    def __len__(self):
        return len(self.xs)

    @property
    def sort_keys(self):
        return np.zeros(len(self.xs), dtype=np.int64)

    def counts(self, rows):
        return {"points": len(rows)}

    def batch(self, rows, *, step):
        x = torch.tensor(self.xs[rows], dtype=torch.float32)[:, None]
        return {"x": x, "y": 2 * x - 1}


def assemble(site: Site) -> Stage:
    torch.manual_seed(0)
    model = Line.from_pretrained(site.last) if site.last else Line(LineConfig())
    train, valid = Points(np.linspace(-1, 1, 40)), Points(np.linspace(-1, 1, 7))
    order = Order(train.sort_keys, 4, 2, seed=1)

    def describe(target: Path, progress) -> None:
        (target / "README.md").write_text(f"step {progress['step']}\n")

    return Stage(
        SquaredError(model),
        order,
        train,
        valid,
        80,
        describe,
        score=lambda step, found: -found["near"],
        facts={"of": 40},
    )


def run(out: Path, **options):
    config = {"points": 40}
    return run_stage("fit-line", out, SETTINGS, assemble=assemble, config=config, inputs=[], **options)


def test_a_stage_from_elsewhere_is_trained_validated_chosen_and_published(tmp_path):
    events = list(run(tmp_path / "out"))
    valid = [event.figures for event in events if event.kind == "valid"]
    assert valid[0]["error"] > 0.5
    assert valid[-1] == {"error": pytest.approx(0, abs=1e-2), "near": 7.0}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    first = next(step for step, figures in zip(range(0, 85, 5), valid, strict=True) if figures["near"] == 7.0)
    assert (manifest["stage"], manifest["facts"]["best_step"], manifest["facts"]["of"]) == ("fit-line", first, 40)
    assert manifest["facts"]["tokens"] == 320  # points
    assert (tmp_path / "out" / "README.md").read_text() == f"step {first}\n"
    assert Line.from_pretrained(tmp_path / "out").line.weight.item() == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("where", ["assemble", "step"])
def test_too_little_memory_is_one_line(tmp_path, monkeypatch, where):
    """A real one of a model that fits no machine, and what a GPU says in the middle of a run."""

    def too_large(site: Site) -> Stage:
        torch.empty(2**60, dtype=torch.uint8)
        return assemble(site)

    def forward(self, batch, step=None):
        if step == 12:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return SquaredError.plain_forward(self, batch, step)

    if where == "assemble":
        started = run_stage("fit-line", tmp_path / "out", SETTINGS, assemble=too_large, config={}, inputs=[])
    else:
        monkeypatch.setattr(SquaredError, "plain_forward", SquaredError.forward, raising=False)
        monkeypatch.setattr(SquaredError, "forward", forward)
        started = run(tmp_path / "out")
    with pytest.raises(WorkFailed, match=r"out of memory; set batch\.stories_per_micro_batch lower"):
        list(started)
    kept = [path.name for path in (tmp_path / "out").glob("last-*")]
    assert kept == ([] if where == "assemble" else ["last-0000010"])


def test_it_is_resumed_bit_for_bit(tmp_path):
    for event in run(tmp_path / "stopped"):
        if event.kind == "step" and event.step == 17:
            break
    assert not (tmp_path / "stopped" / "manifest.json").exists()
    list(run(tmp_path / "stopped", resume=True))
    list(run(tmp_path / "whole"))
    for name in ("model.safetensors", "metrics.jsonl", "last-0000080/optimizer.safetensors"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
