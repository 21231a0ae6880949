"""Measured runs side by side: by number of CNN layers, each under a name of its own, in a table and a figure."""

import re
from pathlib import Path

import pytest

from discodvt.artefacts import open_stage
from discodvt.errors import BadRequest
from discodvt.evaluation.codes.measure import comparison, read_measured
from discodvt.report.charts import write_utilisation_chart


def measured(
    out: Path,
    *,
    layers: int = 3,
    name: str = "writer",
    utilisation: float = 0.62,
    split: str = "test",
    story: str = "s",
) -> Path:
    """A directory as `codes measure` leaves it, with what a comparison reads."""
    bins = [0.0] * 20
    bins[int(20 * utilisation)] = 1.0
    content = {
        "model": {"name": name, "conv_layers": layers, "tokens_per_code": 2**layers, "codes": 16},
        "split": split,
        "stories": 60,
        "usage": {"used": 9, "perplexity": 4.5, "utilisation": {"mean": utilisation, "bins": bins}},
        "figures": {"nll": {"value": 2.5}, "swap_gap": {"value": 0.1}, "utilisation": {"value": utilisation}},
    }
    held = out.parent / f"corpus of {out.name}" / f"{split}.parquet"
    held.parent.mkdir()
    held.write_text(story)
    with open_stage(out, "codes measure", config={}, inputs=[held]) as stage:
        stage.write_json("figures.json", content)
        stage.finish()
    return out


def test_rows_are_by_layers_and_models_of_one_name_go_by_their_directory(tmp_path):
    three, one, two = (measured(tmp_path / f"m{layers}", layers=layers) for layers in (3, 1, 2))
    rows = comparison(read_measured([three, one, two]))
    assert [(row["model"], row["conv_layers"], row["tokens_per_code"]) for row in rows] == [
        (str(one), 1, 2),
        (str(two), 2, 4),
        (str(three), 3, 8),
    ]
    named = [measured(tmp_path / name, layers=2, name=name) for name in ("a", "b")]
    assert [row["model"] for row in comparison(read_measured(named))] == ["a", "b"]


def test_runs_on_other_stories_are_refused(tmp_path):
    first, same = (measured(tmp_path / name) for name in ("first", "same"))
    assert len(read_measured([first, same])) == 2
    with pytest.raises(BadRequest, match=r"valid: measured on 60 valid stories, .*first on 60 test stories"):
        read_measured([first, measured(tmp_path / "valid", split="valid")])
    with pytest.raises(BadRequest, match=r"other: measured on another test.parquet than .*first;"):
        read_measured([first, same, measured(tmp_path / "other", story="another")])


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_the_figure_has_a_curve_for_every_run(tmp_path, suffix):
    runs = read_measured([measured(tmp_path / str(n), layers=n, utilisation=n / 5) for n in (3, 1, 2)])
    write_utilisation_chart(runs, tmp_path / f"runs.{suffix}")
    start = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[suffix]
    assert (tmp_path / f"runs.{suffix}").read_bytes().startswith(start)
    if suffix == "svg":
        labels = re.findall(r"(\d) CNN layers? \(", (tmp_path / "runs.svg").read_text())
        assert labels == ["1", "2", "3"]
