"""The training bench: the same work on both sides, and its rows."""

from dataclasses import replace
from pathlib import Path

from discodvt.bench import train as bench
from discodvt.training.recipes import read_recipe


def test_rows_with_small_shapes(monkeypatch):
    small = bench._bart(16, (1, 1), 2, 50)
    sizes = {"num_codes": 8, "code_width": 8, "conv_channels": 8, "relation_width": 4}
    monkeypatch.setattr(bench, "WORKLOADS", {"toy": bench.Workload(small, sizes, 4, 40, 6, at_most=1e9)})
    monkeypatch.setattr(bench, "_peak_memory", lambda name, *, planned, scale: 2e6 if planned else 1e6)
    step, memory, padding = bench.bench_train(rounds=2)
    assert step.kept
    assert step.ratio > 1
    assert memory.ratio == 2
    assert padding.kept
    assert padding.ratio < 0.05


def test_a_causal_step_is_held_to_its_layers(monkeypatch):
    small = bench._llama(16, 2, 2, 50, posterior_layers=1, num_codes=8, code_width=8, conv_channels=8, relation_width=4)
    assert small.at_most == 1.2 * 1.5
    monkeypatch.setattr(bench, "WORKLOADS", {"toy": replace(small, at_most=1e9)})
    monkeypatch.setattr(bench, "_peak_memory", lambda name, *, planned, scale: 1e6)
    step, *_ = bench.bench_train(rounds=2)
    assert step.name == "stage-1 step / plain step, toy"
    assert step.ratio > 1


def test_steps_with_all_bottlenecks_are_compared(monkeypatch):
    """Each makes a whole step, what follows the update included: codes of VQ move, and others have no such state."""
    small = bench._llama(16, 2, 2, 50, posterior_layers=1, num_codes=8, code_width=8, conv_channels=8, relation_width=4)
    monkeypatch.setattr(bench, "WORKLOADS", {"causal": small})
    moved = []
    monkeypatch.setattr(bench.LatentObjective, "after_step", lambda self, gather: moved.append(self.model.bottleneck))
    rows = list(bench._bottlenecks(1, 0.5))
    assert [row.name.split()[2] for row in rows] == ["straight-through", "bits", "vq", "fsq"]
    assert all(row.promise == "reported" and row.ratio > 0 for row in rows)
    assert len({type(each) for each in moved}) == 5


def test_the_causal_shape_has_the_posterior_of_the_recipe():
    layers = read_recipe(Path(__file__).parents[3] / "recipes" / "nano" / "codes.toml").model.posterior_layers
    assert bench.WORKLOADS["causal"].sizes["posterior_layers"] == layers
