"""The training bench: the same work on both sides, and its rows."""

from discodvt.bench import train as bench


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


def test_the_shapes_are_those_of_the_recipes():
    from pathlib import Path

    from discodvt.training.recipes import read_recipe

    shape = read_recipe(Path(__file__).parents[3] / "recipes" / "nano" / "backbone.toml").model.shape
    nano = bench.WORKLOADS["nano"].bart
    assert (nano["d_model"], nano["encoder_layers"], nano["decoder_attention_heads"], nano["encoder_ffn_dim"]) == (
        shape.width, shape.encoder_layers, shape.heads, shape.ffn_width,
    )  # fmt: skip
